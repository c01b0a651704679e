# A video server: many viewers stream the active titles while a title of the archive is replaced now and then.
# Covers sequential I/O of large files by many readers at a limited rate, with one writer beside them.
# Size: all titles together take a quarter of the free space, 10 GiB each at most.

set $dir=/tmp
set $eventrate=96
set $nactive=4
set $npassive=8
set $filesize=max(16m, min(10g, round_down($free / 4 / ($nactive + $npassive), 1m)))
set $nthreads=max(48, $cores * 2)
set $readiosize=256k
set $writeiosize=1m
set $replaceinterval=10
set $runtime=60

# MiB per second of all viewers together
eventgen rate=$eventrate

define fileset name=active, path=$dir, entries=$nactive, size=$filesize, dirwidth=4, prealloc, paralloc
define fileset name=archive, path=$dir, entries=$npassive, size=$filesize, dirwidth=20, prealloc=50, paralloc

define process name=ingest
{
  thread name=writer, memsize=10m
  {
    flowop deletefile name=drop, filesetname=archive
    flowop createfile name=create, filesetname=archive, fd=1
    flowop writewholefile name=replace, iosize=$writeiosize, fd=1, srcfd=1
    flowop closefile name=close, fd=1
    flowop delay name=pause, value=$replaceinterval
  }
}

define process name=playout
{
  thread name=viewer, instances=$nthreads, memsize=10m
  {
    flowop read name=stream, filesetname=active, iosize=$readiosize
    flowop bwlimit name=rate, target=stream
  }
}

run $runtime
