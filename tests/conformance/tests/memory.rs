//! The registry in memory passes the suite, whether or not it can be asked again, restarted in place or in a shadow.

mod asked {
    use tributary_conformance::conformance_tests;
    use tributary_conformance::memory::MemoryHarness;

    conformance_tests!(paused, MemoryHarness::default());
}

mod gullible {
    use tributary_conformance::conformance_tests;
    use tributary_conformance::memory::MemoryHarness;

    conformance_tests!(paused, MemoryHarness { gullible: true, ..MemoryHarness::default() });
}

mod shadowing {
    use tributary_conformance::conformance_tests;
    use tributary_conformance::memory::MemoryHarness;

    conformance_tests!(paused, MemoryHarness { shadowing: true, ..MemoryHarness::default() });
}

mod threads {
    use std::time::Duration;

    use tributary_conformance::conformance_tests;
    use tributary_conformance::memory::MemoryHarness;

    conformance_tests!(
        real,
        MemoryHarness { patience: Some(Duration::from_secs(2)), ..MemoryHarness::default() }
    );
}
