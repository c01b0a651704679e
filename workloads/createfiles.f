# Small files are created, written and closed until all exist.
# Covers metadata and how it scales with threads.
# Size: up to 50000 files of 16 KiB in directories of 100, at most a quarter of the free space.

set $dir=/tmp
set $nfiles=max(1000, min(50000, $free / 64k))
set $meandirwidth=100
set $filesize=16k
set $iosize=1m
set $nthreads=max(16, $cores * 2)
set $runtime=60

set mode quit firstdone

define fileset name=tree, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth

define process name=createfiles
{
  thread name=worker, instances=$nthreads, memsize=1m
  {
    flowop createfile name=create, filesetname=tree, fd=1
    flowop writewholefile name=write, iosize=$iosize, srcfd=1, fd=1
    flowop closefile name=close, fd=1
  }
}

run $runtime
