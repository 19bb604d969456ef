//! Everything that operators install, built and run as they would: the chart on a real API server, the image, the systemd unit,
//! the Debian package, completion and manual pages, and a release.

mod chart;
mod debian;
mod image;
mod pages;
mod pod;
mod release;
mod releases;
mod systemd;
mod values;
