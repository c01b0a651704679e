# Small files are deleted until none is left.
# Covers metadata and how it scales with threads.
# Size: up to 50000 files of 4 KiB in directories of 100, fewer on less than 3 GiB of free space.

set $dir=/tmp
set $nfiles=max(1000, min(50000, $free / 64k))
set $meandirwidth=100
set $filesize=4k
set $nthreads=max(16, $cores * 2)
set $runtime=60

set mode quit firstdone

define fileset name=tree, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth, prealloc, paralloc

define process name=deletefiles
{
  thread name=worker, instances=$nthreads, memsize=1m
  {
    flowop deletefile name=delete, filesetname=tree
  }
}

run $runtime
