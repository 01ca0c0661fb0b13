

from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='RunningProcess',
            fields=[
                ('id', models.UUIDField(help_text='New at each start.', primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('web', 'Web'), ('worker', 'Worker'), ('beat', 'Beat')], max_length=16)),
                ('host', models.CharField(max_length=255)),
                ('pid', models.BigIntegerField(verbose_name='PID')),
                ('version', models.CharField(max_length=32)),
                ('config_digest', models.CharField(help_text='Digest of its YAML file.', max_length=64, verbose_name='YAML')),
                ('key_ids', models.CharField(blank=True, help_text='Short digests of its keys.', max_length=255, verbose_name='keys')),
                ('started_at', models.DateTimeField(verbose_name='started')),
                ('seen_at', models.DateTimeField(db_index=True, verbose_name='last seen')),
            ],
            options={
                'verbose_name': 'process',
                'verbose_name_plural': 'processes',
            },
        ),
    ]
