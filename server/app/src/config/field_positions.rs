//! Positions of the fields of a YAML document, so that an error found after parsing can name file, line and
//! field.

use super::tree::{Located, Node, Position, position};

/// Positions of all fields of one document, by path (`registries[1].path`), in document order.
#[derive(Debug, Clone, Default)]
pub struct FieldPositions(Vec<(String, Position)>);

impl FieldPositions {
    /// Returns the positions of a document.
    #[must_use]
    pub fn of(root: &Located) -> Self {
        let mut out = Self::default();
        out.add(String::new(), root);
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
    fn add(&mut self, path: String, node: &Located) {
        let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        match &node.value {
            Node::Map(entries) => {
                for (key, value) in entries {
                    let path = below(&key.value);
                    self.0.push((path.clone(), position(key)));
                    self.add(path, value);
                }
            }
            Node::List(items) => {
                for (i, value) in items.iter().enumerate() {
                    let path = format!("{path}[{i}]");
                    self.0.push((path.clone(), position(value)));
                    self.add(path, value);
                }
            }
            Node::Null | Node::Bool(_) | Node::Number(_) | Node::Text(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "kind: Config\nregistries:\n- kind: file\n  path: a\n- kind: file\nxds:\n  tls: {certFile: x}\n";

    #[test]
    fn every_field_has_its_position() {
        let positions = FieldPositions::of(&crate::config::tree::read(TEXT).unwrap());
        assert_eq!(positions.at("registries[0].path"), Some((4, 3)));
        assert_eq!(positions.at("xds.tls.certFile"), Some((7, 9)));
        assert_eq!(positions.at("registries[1].path"), Some((5, 3)), "its parent");
        assert_eq!(positions.at("health"), None);
    }

    #[test]
    fn position_returns_its_field() {
        let positions = FieldPositions::of(&crate::config::tree::read(TEXT).unwrap());
        assert_eq!(positions.path_at((4, 9)), "registries[0].path");
        assert_eq!(positions.path_at((1, 1)), "kind");
        assert!(positions.sets("xds.tls") && !positions.sets("xds.listen"));
    }
}
