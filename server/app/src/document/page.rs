//! Pages of lists: the part of the matching items that a request asks for, and their number.
//!
//! Builders of documents use it, so that no item beyond the page is built.

use super::filter::Filter;

/// Items of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Items, in the order of the list.
    pub items: Vec<T>,
    /// Number of items that match the filter, on any page.
    pub total: usize,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { items: Vec::new(), total: 0 }
    }
}

impl<T> Page<T> {
    /// Builds the items of the filter's page from everything that matches.
    pub fn of<S>(
        matches: impl IntoIterator<Item = S>,
        filter: &Filter,
        mut build: impl FnMut(S) -> T,
    ) -> Self {
        let mut page = Self::default();
        for one in matches {
            if page.wants_next(filter) {
                page.items.push(build(one));
            }
            page.total += 1;
        }
        page
    }
    /// Whether the next match is on the filter's page.
    #[must_use]
    pub fn wants_next(&self, filter: &Filter) -> bool {
        self.total >= filter.offset() && self.items.len() < filter.limit()
    }
    /// Counts some matches of which none is on the filter's page. Returns false, and counts none, if any may be.
    pub fn skip(&mut self, matches: usize, filter: &Filter) -> bool {
        let is_off = self.items.len() >= filter.limit() || self.total + matches <= filter.offset();
        self.total += if is_off { matches } else { 0 };
        is_off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(offset: usize, limit: usize) -> Filter {
        Filter { offset: Some(offset), limit: Some(limit), ..Filter::default() }
    }

    #[test]
    fn only_the_items_of_the_page_are_built() {
        let mut built = 0;
        let page = Page::of(0..1_000, &filter(10, 3), |one| {
            built += 1;
            one
        });
        assert_eq!((&*page.items, page.total, built), (&[10, 11, 12][..], 1_000, 3));
        let none = Page::of(0..5, &filter(5, 3), |one| one);
        assert_eq!((none.items.len(), none.total), (0, 5), "an offset after the end has no items");
        assert_eq!(Page::of(0..5, &filter(0, 0), |one| one).total, 5);
    }

    #[test]
    fn matches_are_skipped_only_if_all_are_off_the_page() {
        let mut page: Page<u8> = Page::default();
        assert!(page.skip(4, &filter(4, 2)) && page.total == 4);
        assert!(!page.skip(1, &filter(4, 2)) && page.total == 4, "the next one is the first of the page");
        page.items.extend([1, 2]);
        page.total += 2;
        assert!(page.skip(9, &filter(4, 2)) && page.total == 15, "the page is full");
    }
}
