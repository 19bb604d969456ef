//! Tracing of the requests of sidecars: `defaultConfig.tracing`, without the tracers, which are part of a proxy's bootstrap.

use std::sync::Arc;

use serde_json::Value;
use tributary_model::{RequestTracing, SampledShare, SpanTag, SpanTagValue};

use super::tree::{Tree, flag, get, map};

/// Supported fields of `defaultConfig.tracing`.
pub(super) const FIELDS: [&str; 4] = ["sampling", "customTags", "maxPathTagLength", "enableIstioTags"];

/// Parses the values of `tracing`; zero means unset, as in Istio.
pub(super) fn parse(tree: &Tree) -> Result<RequestTracing, String> {
    let usual = RequestTracing::default();
    let sampling = get(tree, "sampling").map_or(Ok(None), sampling).map_err(about("tracing.sampling"))?;
    let tags = get(tree, "customTags").map_or_else(|| Ok(Arc::default()), tags);
    let tags = tags.map_err(about("tracing.customTags"))?;
    let max_path = get(tree, "maxPathTagLength").map_or(Ok(0), length);
    let proxy_tags = get(tree, "enableIstioTags").map_or(Ok(true), flag);
    let parsed = RequestTracing {
        sampling: sampling.unwrap_or(usual.sampling),
        tags,
        max_path: Some(max_path.map_err(about("tracing.maxPathTagLength"))?).filter(|length| *length > 0),
        proxy_tags: proxy_tags.map_err(about("tracing.enableIstioTags"))?,
        ..usual
    };
    parsed.check().map_err(about("tracing.customTags"))?;
    Ok(parsed)
}

fn about(name: &'static str) -> impl Fn(String) -> String {
    move |why| format!("{name}: {why}")
}

fn length(value: &Value) -> Result<u32, String> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("{value} is not a number of bytes"))
}

fn sampling(value: &Value) -> Result<Option<SampledShare>, String> {
    let percent = value.as_f64().ok_or_else(|| format!("{value} is not a percentage"))?;
    let share = SampledShare::of_percent(percent)?;
    Ok(Some(share).filter(|share| share.millionths() > 0))
}

fn tags(value: &Value) -> Result<Arc<[SpanTag]>, String> {
    let all = map(value)?.iter();
    let tag = |(name, value): (&String, &Value)| {
        let value = map(value).and_then(tag_value).map_err(|why| format!("{name:?} {why}"))?;
        Ok(SpanTag { name: name.as_str().into(), value })
    };
    all.take(RequestTracing::MOST_TAGS + 1).map(tag).collect()
}

fn tag_value(tree: &Tree) -> Result<SpanTagValue, String> {
    let kinds: Vec<&str> =
        ["literal", "environment", "header"].into_iter().filter(|kind| get(tree, kind).is_some()).collect();
    let &[kind] = &*kinds else {
        return Err("does not have one of literal, environment and header".into());
    };
    let of = get(tree, kind).map_or(Ok(None), |of| map(of).map(Some))?.cloned().unwrap_or_default();
    let text = |name: &str| -> Result<Option<Arc<str>>, String> {
        let read =
            |value: &Value| value.as_str().map(Arc::from).ok_or_else(|| format!("{kind}.{name} is not text"));
        get(&of, name).map(read).transpose()
    };
    let needed = |name: &str| text(name)?.ok_or_else(|| format!("has no {kind}.{name}"));
    let default = || Ok::<_, String>(text("defaultValue")?.filter(|value| !value.is_empty()));
    match kind {
        "literal" => Ok(SpanTagValue::Literal(needed("value")?)),
        "environment" => Ok(SpanTagValue::Environment(needed("name")?, default()?)),
        _ => Ok(SpanTagValue::Header(needed("name")?, default()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mesh;
    use super::*;

    fn mesh(text: &str) -> Mesh {
        Mesh::read(Some(text), None)
    }

    #[test]
    fn tracing_has_a_share_and_tags() {
        let usual = mesh("").tracing();
        assert_eq!(usual, RequestTracing::default());
        assert!(!mesh("enableTracing: false").tracing().enabled);
        let text = "
enableTracing: true
defaultConfig:
  tracing:
    sampling: 12.5
    maxPathTagLength: 64
    enableIstioTags: false
    customTags:
      zone: {environment: {name: ZONE, defaultValue: none}}
      user: {header: {name: x-user}}
      mesh: {literal: {value: one}}
";
        let mesh = mesh(text);
        assert_eq!((mesh.complaint(), mesh.ignored.len()), (None, 0));
        let tag = |name: &str, value| SpanTag { name: name.into(), value };
        let tags = [
            tag("mesh", SpanTagValue::Literal("one".into())),
            tag("user", SpanTagValue::Header("x-user".into(), None)),
            tag("zone", SpanTagValue::Environment("ZONE".into(), Some("none".into()))),
        ];
        let want = RequestTracing {
            enabled: true,
            sampling: SampledShare::of_percent(12.5).unwrap(),
            proxy_tags: false,
            tags: tags.into(),
            max_path: Some(64),
        };
        assert_eq!(mesh.tracing(), want);
    }

    #[test]
    fn zero_means_unset_and_tracers_are_named() {
        let of = mesh(
            "defaultConfig: {tracing: {sampling: 0, maxPathTagLength: 0, zipkin: {address: a}}, concurrency: 2}",
        );
        assert_eq!((of.complaint(), of.tracing()), (None, RequestTracing::default()));
        let ignored: Vec<&str> = of.ignored.iter().map(|name| &**name).collect();
        assert_eq!(ignored, ["defaultConfig.concurrency", "defaultConfig.tracing.zipkin"]);
    }

    #[test]
    fn invalid_value_keeps_the_last_tracing() {
        let last = mesh("defaultConfig: {tracing: {sampling: 50}}");
        let invalid = [
            "sampling: 101",
            "sampling: -1",
            "sampling: all",
            "maxPathTagLength: -1",
            "enableIstioTags: 1",
            "customTags: [a]",
            "customTags: {a: {}}",
            "customTags: {a: {literal: {}}}",
            "customTags: {a: {literal: {value: ''}}}",
            "customTags: {a: {literal: {value: x}, header: {name: b}}}",
            "customTags: {a: {header: {name: 'b c'}}}",
        ];
        for text in invalid {
            let mut next = mesh(&format!("defaultConfig: {{tracing: {{{text}}}}}"));
            assert!(next.complaint().is_some_and(|why| why.starts_with("defaultConfig: tracing.")), "{text}");
            next.inherit(&last);
            assert_eq!(next.tracing(), last.tracing(), "{text}");
        }
        assert!(mesh("enableTracing: maybe").complaint().is_some());
    }
}
