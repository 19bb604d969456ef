//! Host names of gateways: which are asked for when, what their answers mean, and the lookups by DNS.
//!
//! A source of facts like a registry: it reports the addresses of each name, and a problem at each object whose name cannot be
//! resolved. [`Names`] decides and is pure; [`run`] and [`Dns`] are its input and output. The application passes in the names that the
//! gateways of the catalog have.

mod answer;
mod lookup;
mod names;
mod problems;
mod run;

pub use answer::{Answer, Family};
pub use lookup::{Dns, Lookup};
pub use names::{Names, Wanted};
pub use run::run;
