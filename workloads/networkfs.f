# A network file server seen by its clients: programs started, files rewritten by copy, files appended to.
# Covers the mix of sizes of real home directories (most files tiny, some large) and a limited rate of requests.
# Size: up to 20000 files of a tabular distribution of sizes (22 KiB on average), at most an eighth of the free space.

set $dir=/tmp
set $eventrate=1000
set $meandirwidth=20
set $nfiles=max(1000, min(20000, $free / 8 / 22k))
set $nthreads=max(4, $cores * 2)
set $runtime=60

# rounds per second of all clients together
eventgen rate=$eventrate

set $filesize=randvar(randtable={{33, 1k, 1k}, {21, 1k, 3k}, {13, 3k, 5k}, {10, 5k, 11k}, {8, 11k, 21k},
                                 {5, 21k, 43k}, {4, 43k, 85k}, {3, 85k, 171k}, {2, 171k, 341k}, {1, 341k, 1707k}},
                      round=1k)
set $readsize=randvar(randtable={{85, 8k, 8k}, {8, 17k, 23k}, {4, 33k, 39k}, {2, 65k, 71k}, {1, 129k, 135k}},
                      round=1k)
set $writesize=randvar(randtable={{50, 9k, 15k}, {14, 17k, 23k}, {14, 33k, 39k}, {12, 65k, 71k}, {10, 129k, 135k}},
                       round=1k)
# which file: a share of the set, most often one of the first
set $which=randvar(type=gamma, gamma=1000, mean=1)

define fileset name=homes, path=$dir, entries=$nfiles, size=$filesize, dirwidth=$meandirwidth, prealloc=60

define flowop name=start-program, $set
{
  flowop openfile name=open1, filesetname=$set, indexed=$which, fd=3
  flowop readwholefile name=read1, iosize=$readsize, fd=3
  flowop openfile name=open2, filesetname=$set, indexed=$which, fd=4
  flowop readwholefile name=read2, iosize=$readsize, fd=4
  flowop closefile name=close1, fd=3
  flowop closefile name=close2, fd=4
}

define flowop name=rewrite, $set
{
  flowop openfile name=open, filesetname=$set, indexed=$which, fd=1
  flowop readwholefile name=read, iosize=$readsize, fd=1
  flowop createfile name=create, filesetname=$set, indexed=$which, fd=2
  flowop writewholefile name=write, iosize=$writesize, srcfd=1, fd=2
  flowop closefile name=close-old, fd=1
  flowop closefile name=close-new, fd=2
  flowop deletefile name=delete-old, filesetname=$set, fd=1
}

define flowop name=append, $set
{
  flowop openfile name=open, filesetname=$set, indexed=$which, fd=5
  flowop appendfilerand name=write, iosize=$writesize, fd=5
  flowop closefile name=close, fd=5
}

define process name=client
{
  thread name=user, instances=$nthreads, memsize=10m
  {
    flowop start-program name=start, $set=homes
    flowop rewrite name=rewrite, iters=6, $set=homes
    flowop append name=append, iters=3, $set=homes
    flowop statfile name=stat, filesetname=homes, indexed=$which
    flowop eventlimit name=rate
  }
}

run $runtime
