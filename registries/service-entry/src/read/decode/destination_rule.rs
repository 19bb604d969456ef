//! The fields of a DestinationRule. Its settings are decoded by `traffic_policy`.

use tributary_model::{Code, Labels};

use super::fields::Fields;
use super::traffic_policy;
use crate::document::destination_rule::{DestinationRule, SubsetRule};
use crate::document::{Located, Text};
use crate::read::fault::Faults;
use crate::read::node::Node;

pub(super) fn decode(spec: &Node, path: String, faults: &mut Faults) -> DestinationRule {
    let at = Located::new(spec.at, ());
    let Some(mut fields) = Fields::open(spec, path, faults) else {
        return DestinationRule { at, ..DestinationRule::default() };
    };
    let mut ignored = Vec::new();
    let rule = DestinationRule {
        at,
        host: fields.text("host", faults),
        policy: traffic_policy::decode(&mut fields, &mut ignored, faults),
        subsets: {
            let all = fields.list("subsets", faults).into_iter();
            all.map(|(path, node)| subset(node, path, &mut ignored, faults)).collect()
        },
        export_to: fields.texts("exportTo", faults),
        selector: selector(&mut fields, faults),
        ignored,
    };
    fields.finish(faults);
    rule
}

fn subset(node: &Node, path: String, ignored: &mut Vec<Text>, faults: &mut Faults) -> SubsetRule {
    let at = Located::new(node.at, ());
    let Some(mut fields) = Fields::open(node, path, faults) else {
        return SubsetRule { at, ..SubsetRule::default() };
    };
    let subset = SubsetRule {
        at,
        name: fields.text("name", faults),
        labels: fields.labels("labels", faults).unwrap_or_default(),
        policy: traffic_policy::decode(&mut fields, ignored, faults),
    };
    fields.finish(faults);
    subset
}

/// A selector without labels selects every client of its namespace, as in Istio. One with labels is refused: for the other
/// clients the rule would be a different one.
fn selector(fields: &mut Fields<'_>, faults: &mut Faults) -> Option<Located<Labels>> {
    let (path, node) = fields.get("workloadSelector")?;
    let mut inner = Fields::open(node, path, faults)?;
    let labels = inner.labels("matchLabels", faults).unwrap_or_default().value;
    if !labels.is_empty() {
        let fix = "remove it for a rule of all clients of the namespace";
        let message = format!("{} is not served; {fix}", inner.path("matchLabels"));
        faults.refuse(Code::FIELD_NOT_SERVED, node.at, message);
    }
    inner.finish(faults);
    Some(Located::new(node.at, labels))
}
