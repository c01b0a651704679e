# A web server of static pages: ten pages read, then one line for the access log.
# Covers the caching of small files and the contention of many threads on the end of one file.
# Size: 1000 pages of 16 KiB on average, or as many as fit into a 64th of the memory if that is more (up to 20000).

set $dir=/tmp
set $filesize=cvar(type=cvar-gamma, parameters=mean:16384;gamma:1.5)
set $nfiles=max(1000, min($ram / 64 / 16k, $free / 16 / 16k, 20000))
set $meandirwidth=20
set $nthreads=max(100, $cores * 4)
set $iosize=1m
set $meanappendsize=16k
set $memperthread=10m
set $runtime=60

define fileset name=pages, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth, prealloc=100, readonly
define fileset name=log, path=$dir, entries=1, size=$filesize, dirwidth=$meandirwidth, prealloc

define flowop name=page
{
  flowop openfile name=open, filesetname=pages, fd=1
  flowop readwholefile name=read, iosize=$iosize, fd=1
  flowop closefile name=close, fd=1
}

define process name=webserver
{
  thread name=worker, instances=$nthreads, memsize=$memperthread
  {
    flowop page name=page, iters=10
    flowop appendfilerand name=log, filesetname=log, iosize=$meanappendsize, fd=2
  }
}

run $runtime
