"""`penstock add`: files and folders into a collection.

discover.py          find the files
upload.py            put them into the blob store and the database
wait.py              follow their documents; work on them, with helper_worker.py, if no worker is running
progress.py          the counts of all of it, and their display
"""
