//! An endpoint and a locality as a world writes them. An endpoint: `10.0.0.1:80`, followed by every attribute that is not the default:
//! `10.0.0.1:80 w3 p1 eu/1b UNHEALTHY`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};
use tributary_answer::{Assignment, Endpoint, LocalityEndpoints};
use tributary_model::{Health, Locality};

/// One endpoint that a client receives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// Priority.
    pub priority: u32,
    /// Address: `10.0.0.1:80`, `db.example.com:5432`, `unix:/run/x`.
    pub target: String,
    /// Weight.
    pub weight: u32,
    /// Locality: `eu/1b`, or empty.
    pub locality: String,
    /// Health: `UNHEALTHY`, `DRAINING`, or empty if healthy.
    pub health: String,
}

impl Row {
    /// Returns the rows of an assignment, sorted.
    #[must_use]
    pub fn all(assignment: &Assignment<'_>) -> Vec<Self> {
        let rows = assignment
            .localities
            .iter()
            .flat_map(|l| l.endpoints.iter().map(move |e| Self::of(l.priority, &l.locality, e)));
        let mut rows: Vec<Self> = rows.collect();
        rows.sort();
        rows
    }
    fn of(priority: u32, locality: &Locality, endpoint: &Endpoint<'_>) -> Self {
        let healthy = endpoint.health == Health::Healthy;
        Self {
            priority,
            target: endpoint.target.to_string(),
            weight: endpoint.weight,
            locality: locality.to_string(),
            health: if healthy { String::new() } else { endpoint.health.as_str().to_owned() },
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.target)?;
        if self.weight != 1 {
            write!(f, " w{}", self.weight)?;
        }
        if self.priority != 0 {
            write!(f, " p{}", self.priority)?;
        }
        for part in [&self.locality, &self.health] {
            if !part.is_empty() {
                write!(f, " {part}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Row {
    type Err = anyhow::Error;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split_whitespace();
        let target = parts.next().context("an empty row")?.to_owned();
        let (mut weight, mut priority) = (1, 0);
        let (mut locality, mut health) = (String::new(), String::new());
        for part in parts {
            let number = |prefix: char| part.strip_prefix(prefix).and_then(|n| n.parse::<u32>().ok());
            match (number('w'), number('p'), part) {
                (Some(n), _, _) => weight = n,
                (_, Some(n), _) => priority = n,
                (_, _, "UNHEALTHY" | "DRAINING") => health = part.to_owned(),
                (_, _, place) if locality.is_empty() => locality = place.to_owned(),
                _ => bail!("{text:?}: {part:?} is not a weight, priority, locality or health"),
            }
        }
        Ok(Self { priority, target, weight, locality, health })
    }
}

/// One locality that a client receives: `eu/1b w30`, with every attribute that is not the default: `eu/1b w30 p1 empty`;
/// the unknown locality is `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Priority.
    pub priority: u32,
    /// Locality: `eu/1b`, or empty.
    pub locality: String,
    /// Weight among the localities of its priority.
    pub weight: u32,
    /// Whether it has no endpoints.
    pub is_empty: bool,
}

impl Place {
    /// Returns the localities of an assignment, sorted.
    #[must_use]
    pub fn all(assignment: &Assignment<'_>) -> Vec<Self> {
        let place = |l: &LocalityEndpoints<'_>| Self {
            priority: l.priority,
            locality: l.locality.to_string(),
            weight: l.weight,
            is_empty: l.endpoints.is_empty(),
        };
        let mut places: Vec<Self> = assignment.localities.iter().map(place).collect();
        places.sort();
        places
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locality = if self.locality.is_empty() { "-" } else { &self.locality };
        write!(f, "{locality} w{}", self.weight)?;
        if self.priority != 0 {
            write!(f, " p{}", self.priority)?;
        }
        f.write_str(if self.is_empty { " empty" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_is_written() {
        for text in ["10.0.0.1:80", "10.0.0.1:80 w3 p1 eu/1b UNHEALTHY", "unix:/run/x DRAINING"] {
            assert_eq!(text.parse::<Row>().unwrap().to_string(), text);
        }
        assert!("10.0.0.1:80 eu us".parse::<Row>().is_err());
        assert!("".parse::<Row>().is_err());
    }
}
