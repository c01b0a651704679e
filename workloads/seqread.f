# One file is read from begin to end, again and again.
# Covers sequential I/O, read-ahead, and caching as far as the file fits into memory.
# Size: twice the memory, at most a quarter of the free space and 2 GiB (raise $filesize to leave the cache).

set $dir=/tmp
set $filesize=max(64m, min($ram * 2, round_down($free / 4, 1m), 2g))
set $iosize=1m
set $nthreads=1
set $directio=false
set $runtime=60

define fileset name=data, path=$dir, entries=1, size=$filesize, dirwidth=1024, prealloc, paralloc, reuse

define process name=seqread
{
  thread name=reader, instances=$nthreads, memsize=10m
  {
    flowop read name=read, filesetname=data, iosize=$iosize, directio=$directio
  }
}

run $runtime
