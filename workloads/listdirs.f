# Directories are listed.
# Covers metadata and how it scales with threads.
# Size: up to 20000 empty files in a deep tree of directories of 5.

set $dir=/tmp
set $nfiles=max(1000, min(20000, $free / 64k))
set $meandirwidth=5
set $filesize=0
set $nthreads=max(16, $cores * 2)
set $runtime=60

define fileset name=tree, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth, prealloc

define process name=listdirs
{
  thread name=worker, instances=$nthreads, memsize=1m
  {
    flowop listdir name=list, filesetname=tree
  }
}

run $runtime
