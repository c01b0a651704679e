# A tree is copied file by file, once.
# Covers metadata and sequential I/O of small files; the time it takes is the result.
# Size: up to 10000 files of 16 KiB, at most a 16th of the free space.

set $dir=/tmp
set $nfiles=max(1000, min(10000, $free / 16 / 16k))
set $meandirwidth=20
set $filesize=16k
set $nthreads=1
set $iosize=1m
set $runtime=60

set mode quit firstdone

define fileset name=source, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth, prealloc, paralloc
define fileset name=copy, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth

define process name=copier
{
  thread name=copier, instances=$nthreads, memsize=10m
  {
    flowop openfile name=open, filesetname=source, fd=1
    flowop readwholefile name=read, iosize=$iosize, fd=1
    flowop createfile name=create, filesetname=copy, fd=2
    flowop writewholefile name=write, iosize=$iosize, srcfd=1, fd=2
    flowop closefile name=close-source, fd=1
    flowop closefile name=close-copy, fd=2
  }
}

run $runtime
