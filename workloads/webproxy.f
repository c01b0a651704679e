# A proxy cache: an object is replaced, then five are served, all in one flat directory.
# Covers metadata in a large directory and the reading of small files right after their creation.
# Size: up to 10000 objects of 16 KiB on average, at most an eighth of the free space.

set $dir=/tmp
set $filesize=cvar(type=cvar-gamma, parameters=mean:16384;gamma:1.5)
set $nfiles=max(1000, min(10000, $free / 8 / 16k))
set $meandirwidth=1000000
set $nthreads=max(100, $cores * 4)
set $iosize=1m
set $meanappendsize=16k
set $memperthread=10m
set $runtime=60

define fileset name=cache, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth, prealloc=80

define flowop name=serve
{
  flowop openfile name=open, filesetname=cache, fd=1
  flowop readwholefile name=read, iosize=$iosize, fd=1
  flowop closefile name=close, fd=1
}

define process name=proxy
{
  thread name=worker, instances=$nthreads, memsize=$memperthread
  {
    flowop deletefile name=evict, filesetname=cache
    flowop createfile name=fetch-create, filesetname=cache, fd=1
    flowop appendfilerand name=fetch-write, iosize=$meanappendsize, fd=1
    flowop closefile name=fetch-close, fd=1
    flowop serve name=serve, iters=5
    flowop opslimit name=limit
  }
}

run $runtime
