"""Changes of the file, written at once."""

from functools import partial

from config.editing import file_editor
from config.editing.file_editor import change_file


def write(make_change, *args, version=None, record=file_editor._write_unrecorded, **kw):
    return change_file(make_change(*args, **kw), version=version, record=record)


write_text = partial(write, file_editor.put_text, ())
write_data = partial(write, file_editor.put_data, ())
put_text = partial(write, file_editor.put_text)
put_data = partial(write, file_editor.put_data)
add_entry = partial(write, file_editor.add_entry)
remove_entry = partial(write, file_editor.remove_entry)
