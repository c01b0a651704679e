# A mail spool: many small files in one directory, each delivery and each change made durable.
# Covers metadata (create, delete, open), I/O (small appends) and above all fsync.
# Size: 10000 mails of 16 KiB on average, fewer where less than 10 GiB is free.

set $dir=/tmp
set $nfiles=max(1000, min(10000, $free / 1m))
set $meandirwidth=1000000
set $filesize=cvar(type=cvar-gamma, parameters=mean:16384;gamma:1.5)
set $nthreads=max(16, $cores * 2)
set $iosize=1m
set $meanappendsize=16k
set $runtime=60

define fileset name=spool, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth, prealloc=80

define process name=mailserver
{
  thread name=session, instances=$nthreads, memsize=10m
  {
    # a mail is thrown away
    flowop deletefile name=expunge, filesetname=spool

    # a mail is delivered
    flowop createfile name=deliver-create, filesetname=spool, fd=1
    flowop appendfilerand name=deliver-write, iosize=$meanappendsize, fd=1
    flowop fsync name=deliver-sync, fd=1
    flowop closefile name=deliver-close, fd=1

    # a mail is read and marked
    flowop openfile name=mark-open, filesetname=spool, fd=1
    flowop readwholefile name=mark-read, iosize=$iosize, fd=1
    flowop appendfilerand name=mark-write, iosize=$meanappendsize, fd=1
    flowop fsync name=mark-sync, fd=1
    flowop closefile name=mark-close, fd=1

    # a mail is read again
    flowop openfile name=read-open, filesetname=spool, fd=1
    flowop readwholefile name=read, iosize=$iosize, fd=1
    flowop closefile name=read-close, fd=1
  }
}

run $runtime
