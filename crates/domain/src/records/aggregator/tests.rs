//! Tests of the aggregator: sums, groups and what is left out.

use super::StoredValue::{Bool, Json, LongJson, LongText, Null, Number, Text};
use super::*;
use crate::records::stored_body::LongValue;
use proptest::prelude::*;

fn value() -> impl Strategy<Value = StoredValue<'static>> {
    let digits =
        ["1", "1.0", "-0", "0", "10e-1", "9007199254740993", "9007199254740992.0", "-2.50", "-2.5"];
    let texts = [
        "2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", "2025-12-31", "soon",
        "", "1",
    ];
    let long = |byte| LongText(LongValue { chars: 9, bytes: 9, digest: [byte; 32] });
    prop_oneof![
        proptest::sample::select(digits.to_vec()).prop_map(Number),
        proptest::sample::select(texts.to_vec()).prop_map(Text),
        proptest::sample::select(vec![Null, Bool(true), Bool(false), Json("[]"), long(1), long(2)]),
    ]
}

fn plans() -> Vec<AggregatePlan> {
    use Metric::{Count, Distinct, Greatest, Least, Mean, Sum};
    let zone = Zone::named("Europe/Berlin").unwrap();
    let metrics = [
        Count,
        Sum,
        Mean,
        Least(Comparison::Numbers),
        Greatest(Comparison::Numbers),
        Least(Comparison::Times),
        Greatest(Comparison::Times),
        Distinct,
    ];
    let day = Grouping::ByTime(Granularity::Day, zone.clone());
    let weekday = Grouping::ByTime(Granularity::Weekday, zone);
    let groupings = [vec![], vec![Grouping::ByValue], vec![day.clone()], vec![weekday, day]];
    let plan = |metric| groupings.clone().map(|groupings| AggregatePlan { metric, groupings });
    metrics.into_iter().flat_map(plan).collect()
}

fn plan(metric: Metric, groupings: Vec<Grouping>) -> AggregatePlan {
    AggregatePlan { metric, groupings }
}

fn begin(plan: AggregatePlan, types: TypeSet) -> Aggregator {
    let fields = plan.measured_fields() + plan.groupings.len();
    Aggregator::new(plan, vec![vec![types; fields]])
}

/// Aggregates records that have the same value in every field.
fn tally(plan: &AggregatePlan, values: &[Option<StoredValue<'_>>]) -> Aggregator {
    let mut tally = begin(plan.clone(), TypeSet::ANY);
    for value in values {
        tally.add(0, &[*value; 3]).unwrap();
    }
    tally
}

const ORDERS: [GroupOrder; 4] = [
    GroupOrder::GreatestValue,
    GroupOrder::LeastValue,
    GroupOrder::LeastKey,
    GroupOrder::GreatestKey,
];

proptest! {
    #[test]
    fn the_order_of_the_records_does_not_change_the_result_and_pages_are_the_whole(
        values in proptest::collection::vec(proptest::option::weighted(0.9, value()), 0..14),
        shuffled in any::<prop::sample::Index>(),
        limit in 1usize..4,
    ) {
        let length = values.len().max(1);
        let mut turned = values.clone();
        turned.rotate_left(shuffled.index(length).min(values.len()));
        turned.reverse();
        for plan in plans() {
            let (all, other) = (tally(&plan, &values), tally(&plan, &turned));
            prop_assert_eq!(all.value(), other.value());
            prop_assert_eq!(all.left_out(), other.left_out());
            prop_assert_eq!(all.records(), values.len() as u64);
            for order in ORDERS {
                let whole = other.clone().groups(order, None, 100).unwrap().groups;
                let counted: u64 = whole.iter().map(|group| group.count).sum();
                prop_assert_eq!(counted, values.len() as u64);
                let (mut paged, mut after, mut left) = (Vec::new(), None, counted);
                loop {
                    let page = all.clone().groups(order, after, limit).unwrap();
                    left -= page.groups.iter().map(|group| group.count).sum::<u64>();
                    prop_assert_eq!(page.others, left);
                    after = page.groups.last().map(RecordGroup::id);
                    paged.extend(page.groups);
                    if !page.has_more {
                        break;
                    }
                }
                prop_assert_eq!(&paged, &whole);
            }
        }
    }
}

#[test]
fn equal_values_form_one_group_and_missing_values_come_last() {
    let values = [
        Some(Number("1.0")),
        Some(Text("1")),
        None,
        Some(Number("1")),
        Some(Null),
        Some(Json("[1]")),
        Some(Bool(false)),
        Some(Number("-0")),
    ];
    let by_value = plan(Metric::Count, vec![Grouping::ByValue]);
    let page = tally(&by_value, &values).groups(GroupOrder::GreatestValue, None, 4).unwrap();
    let counts: Vec<(GroupKey, u64)> =
        page.groups.into_iter().map(|group| (group.keys[0].clone(), group.count)).collect();
    let number = |digits: &str| GroupKey::Number(digits.to_owned());
    assert_eq!(
        counts,
        [(number("1"), 3), (GroupKey::None, 2), (GroupKey::Bool(false), 1), (number("0"), 1)],
        "a list is in the group of its member"
    );
    assert_eq!(page.others, 1);
    let distinct = tally(&plan(Metric::Distinct, vec![]), &values);
    assert_eq!(distinct.value(), MeasuredValue::Whole(4));
    assert_eq!(distinct.left_out(), [LeftOutValues::default()]);
}

#[test]
fn the_first_spelling_of_equal_values_wins_and_other_types_are_left_out() {
    let numbers = [Some(Number("2.0")), Some(Number("2")), Some(Text("9")), Some(Number("1e0"))];
    let extreme = |metric| tally(&plan(metric, vec![]), &numbers).value();
    let number = |digits: &str| MeasuredValue::Number(digits.to_owned());
    assert_eq!(extreme(Metric::Greatest(Comparison::Numbers)), number("2"));
    assert_eq!(extreme(Metric::Least(Comparison::Numbers)), number("1e0"));
    assert_eq!(extreme(Metric::Least(Comparison::Times)), MeasuredValue::None);
    assert_eq!(extreme(Metric::Mean), number("1.6666666667"));
    let types: TypeSet = [JsonType::Integer].into_iter().collect();
    let mut only = begin(plan(Metric::Sum, vec![Grouping::ByValue]), types);
    for value in numbers {
        only.add(0, &[value; 2]).unwrap();
    }
    let left_out =
        LeftOutValues { values: 1, example: Some("9".into()), ..LeftOutValues::default() };
    assert_eq!(only.left_out(), [left_out.clone(), left_out]);
    let page = only.groups(GroupOrder::LeastKey, None, 10).unwrap();
    let last = page.groups.last().unwrap();
    assert_eq!((&last.keys[0], &last.value), (&GroupKey::None, &number("0")));
}

#[test]
fn too_many_distinct_values_are_refused() {
    for plan in [plan(Metric::Distinct, vec![]), plan(Metric::Count, vec![Grouping::ByValue])] {
        let mut tally = begin(plan, TypeSet::ANY);
        for at in 0..MAX_GROUPS {
            tally.add(0, &[Some(Number(&at.to_string()))]).unwrap();
        }
        tally.add(0, &[Some(Number("7.0"))]).unwrap();
        assert_eq!(tally.add(0, &[Some(Text("x"))]), Err(AggregateOverflow::Groups));
    }
    let mut long = begin(plan(Metric::Count, vec![Grouping::ByValue]), TypeSet::ANY);
    let text = "x".repeat(1019);
    let texts = (0..20_000).map(|at| format!("{at:05}{text}"));
    let refused =
        texts.map(|text| long.add(0, &[Some(Text(&text))])).position(|added| added.is_err());
    assert_eq!(refused, Some(MAX_GROUP_BYTES / 1024));
    let mut sum = begin(plan(Metric::Sum, vec![]), TypeSet::ANY);
    assert_eq!(sum.add(0, &[Some(Number("1e315"))]), Err(AggregateOverflow::Digits));
}

#[test]
fn members_of_lists_that_do_not_count_are_counted_beside_those_that_do() {
    let types: TypeSet = [JsonType::Array, JsonType::String].into_iter().collect();
    let lists = [
        Some(Json(r#"["heron",7,"moss"]"#)),
        Some(Json(r#"[true,null,"heron"]"#)),
        Some(Json(r#"["fern",{"a":1}]"#)),
        Some(Json(r#"["fern",null]"#)),
        Some(Json("[8,9]")),
    ];
    let mut by_value = begin(plan(Metric::Count, vec![Grouping::ByValue]), types);
    let mut distinct = begin(plan(Metric::Distinct, vec![]), types);
    for value in lists {
        by_value.add(0, &[value]).unwrap();
        distinct.add(0, &[value]).unwrap();
    }
    let left_out = LeftOutValues {
        values: 1,
        example: Some("[8,9]".into()),
        long_lists: 0,
        lists: 3,
        member: Some("7".into()),
    };
    assert_eq!(by_value.left_out(), std::slice::from_ref(&left_out));
    assert_eq!(distinct.left_out(), std::slice::from_ref(&left_out));
    assert_eq!(distinct.value(), MeasuredValue::Whole(3));
    let long = LongJson(LongValue { chars: 2000, bytes: 2000, digest: [7; 32] });
    by_value.add(0, &[Some(long)]).unwrap();
    assert_eq!(by_value.left_out(), [LeftOutValues { long_lists: 1, ..left_out }]);
}
