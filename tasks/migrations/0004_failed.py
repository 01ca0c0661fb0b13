from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tasks', '0003_rounds'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state__in', ['errored', 'cancelled'])), fields=['-created_at', 'id'], name='tasks_task_failed'),
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('state__in', ['errored', 'cancelled'])), fields=['user_id', '-created_at', 'id'], name='tasks_task_failed_of_user'),
        ),
    ]
