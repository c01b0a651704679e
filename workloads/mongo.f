# Small files of a message store in the manner of PostMark: append, read, and a second set that is used up.
# Covers metadata; one thread, so latency rather than throughput. Ends when the second set is deleted.
# Size: two sets of up to 10000 files of 16 KiB.

set $dir=/tmp
set $nfiles=max(1000, min(10000, $free / 16 / 16k))
set $meandirwidth=20
set $filesize=16k
set $nthreads=1
set $iosize=16k
set $runtime=60

set mode quit firstdone

define fileset name=store, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth, prealloc
define fileset name=expiring, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth, prealloc

define process name=store
{
  thread name=worker, instances=$nthreads, memsize=10m
  {
    flowop openfile name=append-open, filesetname=store, fd=1
    flowop appendfilerand name=append, iosize=$iosize, fd=1
    flowop closefile name=append-close, fd=1
    flowop openfile name=read-open, filesetname=store, fd=1
    flowop readwholefile name=read, iosize=$iosize, fd=1
    flowop closefile name=read-close, fd=1
    flowop deletefile name=expire, filesetname=expiring
  }
}

run $runtime
