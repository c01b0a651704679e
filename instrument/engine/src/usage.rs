//! What the load cost: processor time and context switches of this process.

/// A reading of the process's counters.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    user_seconds: f64,
    system_seconds: f64,
    voluntary_switches: f64,
    involuntary_switches: f64,
}

impl Usage {
    /// The counters now, of all threads.
    pub fn now() -> Usage {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a structure of the right type; the call fills it.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
        // SAFETY: every bit pattern is a valid `rusage`, and it was zeroed.
        let usage = unsafe { usage.assume_init() };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Usage {
            user_seconds: seconds(usage.ru_utime),
            system_seconds: seconds(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw as f64,
            involuntary_switches: usage.ru_nivcsw as f64,
        }
    }

    /// What was used since `start`: name, unit, value.
    pub fn since(&self, start: &Usage) -> Vec<(&'static str, &'static str, f64)> {
        vec![
            ("cpu_user_seconds", "s", self.user_seconds - start.user_seconds),
            ("cpu_system_seconds", "s", self.system_seconds - start.system_seconds),
            ("voluntary_context_switches", "1", self.voluntary_switches - start.voluntary_switches),
            ("involuntary_context_switches", "1", self.involuntary_switches - start.involuntary_switches),
        ]
    }
}
