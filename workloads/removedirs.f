# Directories are removed until none is left.
# Covers metadata and how it scales with threads.
# Size: up to 50000 directories, 100 in each.

set $dir=/tmp
set $ndirs=max(1000, min(50000, $free / 64k))
set $meandirwidth=100
set $nthreads=max(16, $cores * 2)
set $runtime=60

set mode quit firstdone

define fileset name=tree, path=$dir, leafdirs=$ndirs, dirwidth=$meandirwidth, prealloc

define process name=removedirs
{
  thread name=worker, instances=$nthreads, memsize=1m
  {
    flowop removedir name=remove, filesetname=tree
  }
}

run $runtime
