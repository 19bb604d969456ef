//! Positions of the fields of a YAML document, so that an error found after parsing can name file, line and
//! field.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// Line and column, counted from 1.
pub type Position = (u64, u64);

/// Positions of all fields of one document, by path (`registries[1].path`), in document order.
#[derive(Debug, Clone, Default)]
pub struct FieldPositions(Vec<(String, Position)>);

impl FieldPositions {
    /// Reads the positions of a document that parsed without error.
    #[must_use]
    pub fn of(text: &str, options: serde_saphyr::Options) -> Self {
        let mut out = Self::default();
        if let Ok(root) = serde_saphyr::from_str_with_options::<Spanned<Node>>(text, options) {
            out.add(String::new(), &root);
        }
        out
    }
    /// Returns the position of the field, or of its nearest parent in the document.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<Position> {
        let mut path = path;
        loop {
            if let Some((_, position)) = self.0.iter().find(|(known, _)| known == path) {
                return Some(*position);
            }
            path = path.rfind(['.', '[']).map(|cut| &path[..cut])?;
        }
    }
    /// Whether the document sets this field or a part of it.
    #[must_use]
    pub fn sets(&self, path: &str) -> bool {
        self.0.iter().any(|(known, _)| known == path)
    }
    /// Returns the path of the last field that starts at or before this position.
    #[must_use]
    pub fn path_at(&self, position: Position) -> &str {
        let before = self.0.iter().filter(|(_, at)| *at <= position);
        before.max_by_key(|(path, at)| (*at, path.len())).map_or("", |(path, _)| path)
    }
    /// Returns the path of the mapping or list item that starts at this position. A mapping starts at its
    /// first field.
    #[must_use]
    pub fn part_at(&self, position: Position) -> &str {
        let exact = self.0.iter().filter(|(_, at)| *at == position).min_by_key(|(path, _)| path.len());
        match exact {
            Some((path, _)) if path.ends_with(']') => path,
            Some((path, _)) => path.rsplit_once('.').map_or("", |(part, _)| part),
            None => self.path_at(position),
        }
    }
    /// Paths of all fields that the document sets.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(path, _)| path.as_str())
    }
    fn add(&mut self, path: String, node: &Spanned<Node>) {
        let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        match &node.value {
            Node::Map(entries) => {
                for (key, value) in entries {
                    let path = below(&key.value);
                    self.0.push((path.clone(), (key.referenced.line(), key.referenced.column())));
                    self.add(path, value);
                }
            }
            Node::List(items) => {
                for (i, value) in items.iter().enumerate() {
                    let path = format!("{path}[{i}]");
                    self.0.push((path.clone(), (value.referenced.line(), value.referenced.column())));
                    self.add(path, value);
                }
            }
            Node::Scalar => {}
        }
    }
}

/// Structure of a document without its scalars.
enum Node {
    Map(Vec<(Spanned<String>, Spanned<Node>)>),
    List(Vec<Spanned<Node>>),
    Scalar,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

macro_rules! scalars {
    ($($visit:ident $type:ty),*) => {
        $(fn $visit<E: serde::de::Error>(self, _: $type) -> Result<Node, E> { Ok(Node::Scalar) })*
    };
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }
    scalars!(visit_bool bool, visit_i64 i64, visit_u64 u64, visit_i128 i128, visit_u128 u128, visit_f64 f64, visit_str &str);
    fn visit_unit<E: serde::de::Error>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }
    fn visit_none<E: serde::de::Error>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }
    fn visit_some<D: Deserializer<'de>>(self, d: D) -> Result<Node, D::Error> {
        d.deserialize_any(self)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "kind: Config\nregistries:\n- kind: file\n  path: a\n- kind: file\nxds:\n  tls: {certFile: x}\n";

    #[test]
    fn every_field_has_its_position() {
        let positions = FieldPositions::of(TEXT, serde_saphyr::Options::default());
        assert_eq!(positions.at("registries[0].path"), Some((4, 3)));
        assert_eq!(positions.at("xds.tls.certFile"), Some((7, 9)));
        assert_eq!(positions.at("registries[1].path"), Some((5, 3)), "its parent");
        assert_eq!(positions.at("health"), None);
    }

    #[test]
    fn position_returns_its_field() {
        let positions = FieldPositions::of(TEXT, serde_saphyr::Options::default());
        assert_eq!(positions.path_at((4, 9)), "registries[0].path");
        assert_eq!(positions.path_at((1, 1)), "kind");
        assert!(positions.sets("xds.tls") && !positions.sets("xds.listen"));
    }
}
