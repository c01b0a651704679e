# A transactional database: shadow processes read pages, database writers and a log writer write them behind.
# Covers small random I/O, synchronous and asynchronous, and the hand-over between many processes by semaphores.
# Size: ten data files that share a quarter of the free space, 256 MiB each at most; the log has the size of one.

set $dir=/tmp
set $eventrate=0
set $iosize=2k
set $logiosize=256k
set $nfiles=10
set $filesize=max(10m, min(256m, round_down($free / 4 / $nfiles, 1m)))
set $logfilesize=$filesize
set $nshadows=200
set $ndbwriters=10
set $usermode=200000
set $memperthread=1m
set $workingset=0
set $directio=false
set $runtime=60

eventgen rate=$eventrate

define fileset name=datafiles, path=$dir, entries=$nfiles, size=$filesize, dirwidth=1024, prealloc, reuse
define fileset name=redolog, path=$dir, entries=1, size=$logfilesize, dirwidth=1024, prealloc, reuse

define process name=logwriter
{
  thread name=logwriter, memsize=$memperthread
  {
    flowop aiowrite name=log-write, filesetname=redolog, iosize=$logiosize, random, dsync, directio=$directio
    flowop aiowait name=log-wait
    flowop semblock name=log-wakeup, value=3200, highwater=1000
  }
}

define process name=dbwriter, instances=$ndbwriters
{
  thread name=dbwriter, memsize=$memperthread
  {
    flowop aiowrite name=db-write, filesetname=datafiles, iosize=$iosize, workingset=$workingset, random,
                    iters=100, opennext, dsync, directio=$directio
    flowop hog name=db-cpu, value=10000
    flowop semblock name=db-wakeup, value=1000, highwater=2000
    flowop aiowait name=db-wait
  }
}

define process name=shadow, instances=$nshadows
{
  thread name=shadow, memsize=$memperthread
  {
    flowop read name=page-read, filesetname=datafiles, iosize=$iosize, workingset=$workingset, random, opennext,
                directio=$directio
    flowop hog name=query-cpu, value=$usermode
    flowop sempost name=to-log, value=1, target=log-wakeup, blocking
    flowop sempost name=to-db, value=1, target=db-wakeup, blocking
    flowop eventlimit name=rate
  }
}

run $runtime
