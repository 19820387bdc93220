//! Sixteen or so more questions of each kind of data, each answered by one call. The right answers
//! are computed from the rules by which the files of the tests are made, not from answers.

use serde_json::{Value, json};

/// A question, the tool, its arguments, and what the answer has to say.
pub(super) type Asked = (&'static str, &'static str, fn() -> Value, &'static [&'static str]);

pub(super) const MAIL: [Asked; 15] = [
    (
        "Who writes most?",
        "aggregate",
        || json!({"stream": "mail", "metric": "count", "group_by": "from"}),
        &["\"Ann Lee <ann@herons.example>\"=20", "\"Heating Ltd <office@heating.example>\"=20"],
    ),
    (
        "How many people write?",
        "aggregate",
        || json!({"stream": "mail", "metric": "count_distinct", "field": "from"}),
        &["= 3 over 60"],
    ),
    (
        "When did the first mail come?",
        "aggregate",
        || json!({"stream": "mail", "metric": "min", "field": "date"}),
        &["2026-01-01T10:00:00"],
    ),
    (
        "When did the last mail come?",
        "aggregate",
        || json!({"stream": "mail", "metric": "max", "field": "date"}),
        &["2026-03-04T10:59:00"],
    ),
    (
        "On which weekday does most mail come?",
        "aggregate",
        || {
            json!({
                "stream": "mail", "metric": "count", "group_by_time": "date",
                "granularity": "weekday",
            })
        },
        &["\"Monday\"=9", "\"Thursday\"=8"],
    ),
    (
        "How many mails came in February?",
        "aggregate",
        || {
            json!({
                "stream": "mail", "metric": "count",
                "filter": {"date": {"gte": "2026-02-01", "lt": "2026-03-01"}},
            })
        },
        &["= 28 over 28"],
    ),
    (
        "How many mails of Ann came in February?",
        "aggregate",
        || {
            json!({
                "stream": "mail", "metric": "count",
                "filter": {
                    "from": "Ann Lee <ann@herons.example>",
                    "date": {"gte": "2026-02-01", "lt": "2026-03-01"},
                },
            })
        },
        &["= 9 over"],
    ),
    (
        "When did the boiler come up each month?",
        "aggregate",
        || {
            json!({
                "stream": "mail", "metric": "count", "q": "boiler", "group_by_time": "date",
                "granularity": "month",
            })
        },
        &["=5, ", "=4"],
    ),
    (
        "When was the boiler last mentioned?",
        "aggregate",
        || json!({"stream": "mail", "metric": "max", "field": "date", "q": "boiler"}),
        &["2026-03-01T10:56:00"],
    ),
    (
        "Which mails quote the boiler?",
        "aggregate",
        || {
            json!({
                "stream": "mail", "metric": "count", "q": "subject:boiler", "group_by": "subject",
            })
        },
        &["10 group(s)", "\"Boiler quote 2\"=1"],
    ),
    (
        "How many mails speak of a valve, and not of lunch?",
        "aggregate",
        || json!({"stream": "mail", "metric": "count", "q": "valve -lunch"}),
        &["= 10 over"],
    ),
    (
        "Does any mail speak of a chimney?",
        "search",
        || json!({"q": "chimney", "streams": ["mail"]}),
        &["0 hit(s)"],
    ),
    (
        "Which mails came on 5 January?",
        "query_records",
        || {
            json!({
                "stream": "mail", "filter": {"date": {"gte": "2026-01-05", "lt": "2026-01-06"}},
                "detail": "list", "fields": ["subject"],
            })
        },
        &["shown=1 of 1", "Lunch 4"],
    ),
    (
        "How many mails are of Ann or Bo?",
        "aggregate",
        || {
            json!({
                "stream": "mail", "metric": "count",
                "filter": {"from": ["Ann Lee <ann@herons.example>", "Bo Roe <bo@ponds.example>"]},
            })
        },
        &["= 40 over"],
    ),
    (
        "Which mails have a label?",
        "aggregate",
        || {
            json!({
                "stream": "mail", "metric": "count", "filter": {"labels": {"exists": true}},
            })
        },
        &["= 0 over"],
    ),
];

pub(super) const MONEY: [Asked; 15] = [
    (
        "What was spent in all?",
        "aggregate",
        || json!({"stream": "money", "metric": "sum", "field": "Betrag"}),
        &["= -54501 over 90"],
    ),
    (
        "What did the bakery get?",
        "aggregate",
        || {
            json!({
                "stream": "money", "metric": "sum", "field": "Betrag",
                "filter": {"Empfaenger": "Bakery"},
            })
        },
        &["= -126 over 30"],
    ),
    (
        "What went to whom?",
        "aggregate",
        || {
            json!({
                "stream": "money", "metric": "sum", "field": "Betrag", "group_by": "Empfaenger",
            })
        },
        &["\"Green Grocer\"=-375", "\"Landlord\"=-54000"],
    ),
    (
        "How often was the grocer paid?",
        "aggregate",
        || {
            json!({
                "stream": "money", "metric": "count", "filter": {"Empfaenger": "Green Grocer"},
            })
        },
        &["= 30 over"],
    ),
    (
        "How many payments were there each month?",
        "aggregate",
        || {
            json!({
                "stream": "money", "metric": "count", "group_by_time": "Datum",
                "granularity": "month",
            })
        },
        &[
            "2026-01-01T00:00:00+00:00\"=30",
            "2026-02-01T00:00:00+00:00\"=30",
            "2026-03-01T00:00:00+00:00\"=30",
        ],
    ),
    (
        "What was the rent in March?",
        "aggregate",
        || {
            json!({
                "stream": "money", "metric": "sum", "field": "Betrag",
                "filter": {"Art": "Rent", "Datum": {"gte": "2026-03-01", "lt": "2026-04-01"}},
            })
        },
        &["= -18000 over"],
    ),
    (
        "What was the largest payment?",
        "aggregate",
        || json!({"stream": "money", "metric": "min", "field": "Betrag"}),
        &["= -1800"],
    ),
    (
        "What was the smallest payment?",
        "aggregate",
        || json!({"stream": "money", "metric": "max", "field": "Betrag"}),
        &["= -4.2"],
    ),
    (
        "How many are paid?",
        "aggregate",
        || json!({"stream": "money", "metric": "count_distinct", "field": "Empfaenger"}),
        &["= 3 over 90"],
    ),
    (
        "What does a month of the bakery cost?",
        "aggregate",
        || {
            json!({
                "stream": "money", "metric": "sum", "field": "Betrag",
                "filter": {"Empfaenger": "Bakery"}, "group_by_time": "Datum",
                "granularity": "month",
            })
        },
        &["=-42", "=-42", "=-42"],
    ),
    (
        "When was the landlord paid last?",
        "aggregate",
        || {
            json!({
                "stream": "money", "metric": "max", "field": "Datum",
                "filter": {"Empfaenger": "Landlord"},
            })
        },
        &["2026-03-28"],
    ),
    (
        "How many payments were below ten?",
        "aggregate",
        || {
            json!({
                "stream": "money", "metric": "count", "filter": {"Betrag": {"gt": -10}},
            })
        },
        &["= 30 over"],
    ),
    (
        "What was paid on 5 January?",
        "query_records",
        || {
            json!({
                "stream": "money", "filter": {"Datum": "2026-01-05"}, "detail": "list",
            })
        },
        &["shown=1 of 1", "Bakery"],
    ),
    (
        "Which payments name a landlord?",
        "search",
        || json!({"q": "landlord", "streams": ["money"], "limit": 1}),
        &["30 hit(s)"],
    ),
    (
        "On which weekday are groceries bought?",
        "aggregate",
        || {
            json!({
                "stream": "money", "metric": "count", "filter": {"Art": "Groceries"},
                "group_by_time": "Datum", "granularity": "weekday",
            })
        },
        &["\"Monday\"=9", "\"Sunday\"=8"],
    ),
];

pub(super) const CHAT: [Asked; 16] = [
    (
        "How many messages are there?",
        "aggregate",
        || json!({"stream": "chat", "metric": "count"}),
        &["= 40 over 40"],
    ),
    (
        "How many messages did Ann write?",
        "aggregate",
        || json!({"stream": "chat", "metric": "count", "filter": {"from": "Ann"}}),
        &["= 20 over"],
    ),
    (
        "When did the chat begin?",
        "aggregate",
        || json!({"stream": "chat", "metric": "min", "field": "at"}),
        &["2026-01-01T08:00:00Z"],
    ),
    (
        "When was the last message?",
        "aggregate",
        || json!({"stream": "chat", "metric": "max", "field": "at"}),
        &["2026-02-12T11:00:00Z"],
    ),
    (
        "How many messages came each month?",
        "aggregate",
        || {
            json!({
                "stream": "chat", "metric": "count", "group_by_time": "at", "granularity": "month",
            })
        },
        &["=28, ", "=12"],
    ),
    (
        "Who wrote how much in February?",
        "aggregate",
        || {
            json!({
                "stream": "chat", "metric": "count", "group_by": "from",
                "filter": {"at": {"gte": "2026-02-01"}},
            })
        },
        &["\"Ann\"=6", "\"Bo\"=6"],
    ),
    (
        "On which weekday do they write?",
        "aggregate",
        || {
            json!({
                "stream": "chat", "metric": "count", "group_by_time": "at",
                "granularity": "weekday",
            })
        },
        &["\"Friday\"=5"],
    ),
    (
        "Who wrote of the ferry?",
        "aggregate",
        || {
            json!({
                "stream": "chat", "metric": "count", "q": "ferry", "group_by": "from",
            })
        },
        &["\"Bo\"=1"],
    ),
    (
        "When was the ferry mentioned?",
        "aggregate",
        || json!({"stream": "chat", "metric": "max", "field": "at", "q": "ferry"}),
        &["2026-01-18T13:00:00Z"],
    ),
    (
        "What exactly was said of nine?",
        "search",
        || json!({"q": "\"leaves at nine\"", "streams": ["chat"]}),
        &["1 hit(s)", "the ferry leaves at nine"],
    ),
    (
        "What did Ann write last?",
        "query_records",
        || json!({"stream": "chat", "filter": {"from": "Ann"}, "limit": 1}),
        &["message 38"],
    ),
    (
        "What was the first message?",
        "query_records",
        || json!({"stream": "chat", "order": "asc", "limit": 1}),
        &["message 0"],
    ),
    (
        "What was written on 12 January?",
        "query_records",
        || {
            json!({
                "stream": "chat", "filter": {"at": {"gte": "2026-01-12", "lt": "2026-01-13"}},
                "detail": "list", "fields": ["text"],
            })
        },
        &["shown=1 of 1", "message 11"],
    ),
    (
        "How many write?",
        "aggregate",
        || json!({"stream": "chat", "metric": "count_distinct", "field": "from"}),
        &["= 2 over 40"],
    ),
    (
        "How many pictures are left out?",
        "aggregate",
        || {
            json!({
                "stream": "chat", "metric": "count", "filter": {"media_omitted": true},
            })
        },
        &["= 0 over"],
    ),
    (
        "Does anybody speak of a train?",
        "search",
        || json!({"q": "train", "streams": ["chat"]}),
        &["0 hit(s)"],
    ),
];

pub(super) const CALENDAR: [Asked; 16] = [
    (
        "How many entries are there?",
        "aggregate",
        || json!({"stream": "calendar", "metric": "count"}),
        &["= 30 over 30"],
    ),
    (
        "How often was the dentist visited?",
        "aggregate",
        || {
            json!({
                "stream": "calendar", "metric": "count", "filter": {"summary": "Dentist"},
            })
        },
        &["= 3 over"],
    ),
    (
        "When is the first visit of the dentist?",
        "aggregate",
        || {
            json!({
                "stream": "calendar", "metric": "min", "field": "date",
                "filter": {"summary": "Dentist"},
            })
        },
        &["2026-01-04"],
    ),
    (
        "How full is each month?",
        "aggregate",
        || {
            json!({
                "stream": "calendar", "metric": "count", "group_by_time": "date",
                "granularity": "month",
            })
        },
        &["=15, ", "=15"],
    ),
    (
        "At which hour do entries begin?",
        "aggregate",
        || {
            json!({
                "stream": "calendar", "metric": "count", "group_by_time": "start",
                "granularity": "hour_of_day",
            })
        },
        &[" 8=4", " 12=3"],
    ),
    (
        "Where is the dentist?",
        "aggregate",
        || {
            json!({
                "stream": "calendar", "metric": "count", "q": "dentist", "group_by": "location",
            })
        },
        &["\"Zug\"=3"],
    ),
    (
        "What is on 7 January?",
        "query_records",
        || {
            json!({
                "stream": "calendar", "filter": {"date": "2026-01-07"}, "detail": "list",
                "fields": ["summary"],
            })
        },
        &["shown=1 of 1", "Meeting 6"],
    ),
    (
        "What is the last entry?",
        "query_records",
        || json!({"stream": "calendar", "limit": 1}),
        &["Meeting 29"],
    ),
    (
        "What is the first entry?",
        "query_records",
        || json!({"stream": "calendar", "order": "asc", "limit": 1}),
        &["Meeting 0"],
    ),
    (
        "How often am I in Bern in February?",
        "aggregate",
        || {
            json!({
                "stream": "calendar", "metric": "count",
                "filter": {"location": "Bern", "date": {"gte": "2026-02-01", "lt": "2026-03-01"}},
            })
        },
        &["= 7 over"],
    ),
    (
        "When is meeting 12?",
        "search",
        || json!({"q": "\"meeting 12\"", "streams": ["calendar"]}),
        &["1 hit(s)", "work/calendar:e12"],
    ),
    (
        "Which entries take whole days?",
        "aggregate",
        || json!({"stream": "calendar", "metric": "count", "filter": {"all_day": true}}),
        &["= 0 over"],
    ),
    (
        "Which entries repeat?",
        "aggregate",
        || {
            json!({
                "stream": "calendar", "metric": "count", "filter": {"rule": {"exists": true}},
            })
        },
        &["= 0 over"],
    ),
    (
        "How many places are there?",
        "aggregate",
        || {
            json!({
                "stream": "calendar", "metric": "count_distinct", "field": "location",
            })
        },
        &["= 2 over 30"],
    ),
    (
        "What is before February in Zug?",
        "query_records",
        || {
            json!({
                "stream": "calendar", "filter": {"location": "Zug", "date": {"lt": "2026-02-01"}},
                "detail": "list", "fields": ["date", "summary"],
            })
        },
        &["shown=7 of", "Meeting 1\""],
    ),
    (
        "On which weekdays am I in Bern?",
        "aggregate",
        || {
            json!({
                "stream": "calendar", "metric": "count", "filter": {"location": "Bern"},
                "group_by_time": "date", "granularity": "weekday",
            })
        },
        &["\"Monday\"=2", "\"Thursday\"=3"],
    ),
];

pub(super) const NOTES: [Asked; 18] = [
    (
        "How many notes are there?",
        "aggregate",
        || json!({"stream": "notes", "metric": "count"}),
        &["= 25 over 25"],
    ),
    (
        "How many notes are due each month?",
        "aggregate",
        || {
            json!({
                "stream": "notes", "metric": "count", "group_by_time": "due",
                "granularity": "month",
            })
        },
        &["=5, ", "=4"],
    ),
    (
        "What is due first?",
        "aggregate",
        || json!({"stream": "notes", "metric": "min", "field": "due"}),
        &["2026-01-01"],
    ),
    (
        "What is due last?",
        "aggregate",
        || json!({"stream": "notes", "metric": "max", "field": "due"}),
        &["2026-06-01"],
    ),
    (
        "Which notes are due in March?",
        "query_records",
        || {
            json!({
                "stream": "notes", "filter": {"due": {"gte": "2026-03-01", "lt": "2026-04-01"}},
                "detail": "list", "fields": ["path"],
            })
        },
        &["shown=4 of 4", "note02.md"],
    ),
    (
        "Which notes are due after April?",
        "aggregate",
        || {
            json!({
                "stream": "notes", "metric": "count", "filter": {"due": {"gt": "2026-04-30"}},
            })
        },
        &["= 8 over"],
    ),
    (
        "How many notes mention herons?",
        "aggregate",
        || json!({"stream": "notes", "metric": "count", "q": "herons"}),
        &["= 1 over 1"],
    ),
    (
        "In which note do herons nest?",
        "search",
        || json!({"q": "\"herons nest\"", "streams": ["notes"]}),
        &["1 hit(s)", "note09.md"],
    ),
    (
        "When is the note on herons due?",
        "aggregate",
        || json!({"stream": "notes", "metric": "max", "field": "due", "q": "herons"}),
        &["2026-04-01"],
    ),
    (
        "How many notes have nothing new?",
        "aggregate",
        || json!({"stream": "notes", "metric": "count", "q": "\"nothing new\""}),
        &["= 24 over"],
    ),
    (
        "Which note is number 12?",
        "search",
        || json!({"q": "\"note 12\"", "streams": ["notes"]}),
        &["note12.md"],
    ),
    (
        "What does note 20 say?",
        "fetch",
        || json!({"id": "vault/notes:note20.md"}),
        &["nothing new"],
    ),
    (
        "Do the notes speak of otters?",
        "search",
        || json!({"q": "otters", "streams": ["notes"]}),
        &["0 hit(s)"],
    ),
    (
        "Which notes are without a date?",
        "aggregate",
        || {
            json!({
                "stream": "notes", "metric": "count", "filter": {"due": {"exists": false}},
            })
        },
        &["= 0 over"],
    ),
    (
        "How many days are notes due on?",
        "aggregate",
        || json!({"stream": "notes", "metric": "count_distinct", "field": "due"}),
        &["= 6 over 25"],
    ),
    (
        "Which notes speak of reeds or are due in June?",
        "query_records",
        || {
            json!({
                "stream": "notes", "filter": [{"path": "note09.md"}, {"due": "2026-06-01"}],
                "detail": "list", "fields": ["path"],
            })
        },
        &["shown=5 of", "note09.md"],
    ),
    (
        "Is there a note that begins with her?",
        "search",
        || json!({"q": "her*", "streams": ["notes"]}),
        &["1 hit(s)"],
    ),
    (
        "How many notes with nothing new are due in January?",
        "aggregate",
        || {
            json!({
                "stream": "notes", "metric": "count", "q": "\"nothing new\"",
                "filter": {"due": "2026-01-01"},
            })
        },
        &["= 5 over"],
    ),
];
