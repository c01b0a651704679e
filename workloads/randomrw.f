# Random reads and writes of one large file, half of the threads each.
# Covers random I/O of both directions at once.
# Size: twice the memory, at most a quarter of the free space and 2 GiB (raise $filesize to leave the cache).

set $dir=/tmp
set $filesize=max(64m, min($ram * 2, round_down($free / 4, 1m), 2g))
set $workingset=0
set $iosize=8k
set $nthreads=1
set $directio=false
set $runtime=60

define fileset name=data, path=$dir, entries=1, size=$filesize, dirwidth=1024, prealloc, paralloc, reuse

define process name=randomrw
{
  thread name=reader, instances=$nthreads, memsize=5m
  {
    flowop read name=read, filesetname=data, iosize=$iosize, workingset=$workingset, random, directio=$directio
  }
  thread name=writer, instances=$nthreads, memsize=5m
  {
    flowop write name=write, filesetname=data, iosize=$iosize, workingset=$workingset, random, directio=$directio
  }
}

run $runtime
