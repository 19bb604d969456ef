//! Runs the suite on the registry in memory: with and without confirmation of removals, and restarted in place
//! or in a shadow.

mod confirming {
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
