//! The reference pages equal the pages that the program generates. `UPDATE_DOCS=1` rewrites them instead.

use std::path::PathBuf;

use tributary_app::reference::{PAGES, page};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference")
}

#[test]
fn reference_pages_match_the_program() {
    for name in PAGES {
        let made = page(name).unwrap();
        let path = folder().join(name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(&path, &made).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == made,
            "docs/reference/{name} is out of date: UPDATE_DOCS=1 cargo test -p tributary --test reference"
        );
    }
}

#[test]
fn pages_contain_every_row_of_their_tables() {
    let checks = page("checks.md").unwrap();
    assert_eq!(checks.matches("\n### ").count(), tributary_app::check::TABLE.len());
    let codes = page("codes.md").unwrap();
    assert_eq!(codes.matches("\n| TRB").count(), tributary_model::Code::TABLE.len());
    let metrics = page("metrics.md").unwrap();
    assert_eq!(metrics.matches("\n| `tributary_").count(), tributary_app::admin::metrics::TABLE.len());
    for (name, _) in tributary_app::admin::metrics::istio::REFUSED {
        assert!(metrics.contains(&format!("\n| `{name}` |")), "{name} is not listed");
    }
    let config = page("config.md").unwrap();
    for field in ["xds.tls.certFile", "registries[].path", "settings.crossNetwork", "start.firstSyncTimeout"]
    {
        assert!(config.contains(&format!("| `{field}` |")), "{field} is not described:\n{config}");
    }
}
