# Files are opened and closed.
# Covers metadata and how it scales with threads.
# Size: up to 50000 empty files in directories of 100, fewer on less than 3 GiB of free space.

set $dir=/tmp
set $nfiles=max(1000, min(50000, $free / 64k))
set $meandirwidth=100
set $filesize=0
set $nthreads=max(16, $cores * 2)
set $runtime=60

define fileset name=tree, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth, prealloc

define process name=openfiles
{
  thread name=worker, instances=$nthreads, memsize=1m
  {
    flowop openfile name=open, filesetname=tree, fd=1
    flowop closefile name=close, fd=1
  }
}

run $runtime
