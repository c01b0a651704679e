# Files are created, written in 16 KiB pieces, made durable and closed: the pattern of fs-mark.
# Covers the cost of fsync for new files, and how far threads share it.
# Size: up to 4000 files of 1 MiB in one directory, at most half of the free space.

set $dir=/tmp
set $filesize=1m
set $nfiles=max(100, min(4000, $free / 2 / $filesize))
set $meandirwidth=1000000
set $iosize=16k
set $nthreads=1
set $runtime=60

set mode quit firstdone

define fileset name=tree, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth

define process name=fsmark
{
  thread name=writer, instances=$nthreads, memsize=1m
  {
    flowop createfile name=create, filesetname=tree, fd=1
    flowop writewholefile name=write, iosize=$iosize, srcfd=1, fd=1
    flowop fsync name=sync, fd=1
    flowop closefile name=close, fd=1
  }
}

run $runtime
