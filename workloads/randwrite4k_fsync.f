# Random writes of 4 KiB, each made durable.
# Covers the latency of fsync: the commit path of a file system and the flush of a device.
# Size: twice the memory, at most a quarter of the free space and 2 GiB (raise $filesize to leave the cache).

set $dir=/tmp
set $filesize=max(64m, min($ram * 2, round_down($free / 4, 1m), 2g))
set $workingset=0
set $iosize=4k
set $nthreads=1
set $directio=false
set $runtime=60

define fileset name=data, path=$dir, entries=1, size=$filesize, dirwidth=1024, prealloc, paralloc, reuse

define process name=randwrite4k_fsync
{
  thread name=writer, instances=$nthreads, memsize=5m
  {
    flowop write name=write, filesetname=data, iosize=$iosize, fd=1, workingset=$workingset, random, directio=$directio
    flowop fsync name=sync, fd=1
  }
}

run $runtime
