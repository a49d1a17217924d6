-- name: data_folder
-- The folder of the server's files, if it runs on this machine as far as we can see, and if we may know it.
select setting from pg_settings
where name = 'data_directory' and (inet_server_addr() is null or inet_server_addr() <<= '127.0.0.0/8' or inet_server_addr() = '::1')
