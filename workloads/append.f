# Threads append to files of their own, and make it durable now and then.
# Covers allocation at the end of files and the commit of a growing size; what a log does.
# Size: starts empty and grows with the speed of the target; stops before it has filled half of the free space.

set $dir=/tmp
set $nthreads=max(1, $cores)
set $filesize=0
set $iosize=8k
set $syncevery=128
set $maxbytes=max(64m, $free / 2 / $nthreads)
set $runtime=60

set mode quit firstdone

define fileset name=logs, path=$dir, entries=$nthreads, size=$filesize, dirwidth=1024, prealloc

define process name=append
{
  thread name=writer, instances=$nthreads, memsize=1m
  {
    flowop appendfile name=append, filesetname=logs, iosize=$iosize, iters=$syncevery, fd=1
    flowop fsync name=sync, fd=1
    flowop finishonbytes name=full, value=$maxbytes, target=append
  }
}

run $runtime
