//! Operators on values.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equals,
    In,
    Exists,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Between,
    Before,
    After,
    WithinLast,
    Contains,
    StartsWith,
    EndsWith,
    ArrayContains,
    ArrayContainsAny,
}

/// Each operator's name and, if there is one, the name of its opposite.
const NAMES: &[(Operator, &str, Option<&str>)] = &[
    (Operator::Equals, "eq", Some("neq")),
    (Operator::Greater, "gt", None),
    (Operator::GreaterOrEqual, "gte", None),
    (Operator::Less, "lt", None),
    (Operator::LessOrEqual, "lte", None),
    (Operator::Between, "between", None),
    (Operator::In, "in", Some("not_in")),
    (Operator::Contains, "contains", Some("not_contains")),
    (Operator::StartsWith, "starts_with", None),
    (Operator::EndsWith, "ends_with", None),
    (Operator::Exists, "exists", Some("not_exists")),
    (Operator::ArrayContains, "array_contains", None),
    (Operator::ArrayContainsAny, "array_contains_any", None),
    (Operator::Before, "before", None),
    (Operator::After, "after", None),
    (Operator::WithinLast, "within_last", Some("not_within_last")),
];

impl Operator {
    /// Returns the operator, and whether the name is that of its opposite.
    pub(super) fn parse(text: &str) -> Option<(Self, bool)> {
        NAMES.iter().find_map(|(operator, name, opposite)| {
            let negated = *opposite == Some(text);
            (*name == text || negated).then_some((*operator, negated))
        })
    }

    /// Returns the names of all `wanted` operators, for error messages.
    pub(super) fn names(wanted: impl Fn(Self) -> bool) -> String {
        let all = NAMES.iter().filter(|(operator, ..)| wanted(*operator));
        let names = all.flat_map(|(_, name, opposite)| [Some(*name), *opposite]).flatten();
        names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn is_for_texts(self) -> bool {
        matches!(self, Self::Equals | Self::In | Self::Exists | Self::Contains | Self::StartsWith | Self::EndsWith)
    }

    pub(super) fn is_for_times(self) -> bool {
        matches!(
            self,
            Self::Less
                | Self::LessOrEqual
                | Self::Greater
                | Self::GreaterOrEqual
                | Self::Between
                | Self::Before
                | Self::After
                | Self::WithinLast
                | Self::Exists
        )
    }
}
