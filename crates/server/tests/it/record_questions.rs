//! Twenty questions that people ask of each of their mail, money, chats, calendar and notes,
//! answered by an agent that knows the tools alone, from files as programs export them.
//!
//! The page `docs/questions.md` has the calls and their bytes.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use stile_testkit::documents::assert_document;
use stile_testkit::hosted::{Lifecycle, Peer};

use self::kinds::Asked;
use crate::agent_tasks::Agent;
use crate::records_kit::Kit;

mod kinds;

/// Sixty messages of three people in three months, ten of which mention a boiler.
fn mailbox() -> String {
    let mut mailbox = String::new();
    for number in 0..60 {
        let from = ["Ann Lee <ann@herons.example>", "Bo Roe <bo@ponds.example>"];
        let office = "Heating Ltd <office@heating.example>";
        let from = from.get(number % 3).unwrap_or(&office);
        let (subject, body) = match number % 6 {
            2 => (format!("Boiler quote {number}"), "The boiler needs a new valve."),
            _ => (format!("Lunch {number}"), "See you at noon."),
        };
        let (day, month) = (1 + number % 28, ["Jan", "Feb", "Mar"][number / 28]);
        let _ = write!(
            mailbox,
            "From x Mon Jan  5 10:00:00 2026\nMessage-ID: <m{number}@x.example>\nFrom: {from}\n\
             To: me@x.example\nSubject: {subject}\nDate: {day:02} {month} 2026 10:{number:02}:00 \
             +0000\n\n{body}\n\n"
        );
    }
    mailbox
}

/// Ninety transactions of a German bank in three months.
fn transactions() -> String {
    let mut table = "Datum;Empfaenger;Art;Betrag\n".to_owned();
    for number in 0..90 {
        let row =
            ["Green Grocer;Groceries;-12,50", "Bakery;Groceries;-4,20", "Landlord;Rent;-1.800,00"]
                [number % 3];
        let (day, month) = (1 + number % 28, 1 + number / 30);
        let _ = writeln!(table, "{day:02}.{month:02}.2026;{row}");
    }
    table
}

/// Forty messages of two people.
fn chat() -> String {
    let mut chat = String::new();
    for number in 0..40 {
        let text = match number {
            17 => "the ferry leaves at nine".to_owned(),
            _ => format!("message {number}"),
        };
        let (day, month, hour) = (1 + number % 28, 1 + number / 28, 8 + number % 12);
        let from = ["Ann", "Bo"][number % 2];
        let _ = writeln!(chat, "[{day:02}.{month:02}.26, {hour:02}:00:00] {from}: {text}");
    }
    chat
}

/// Thirty appointments in two months, three of them with a dentist.
fn calendar() -> String {
    let mut calendar = "BEGIN:VCALENDAR\r\n".to_owned();
    for number in 0..30 {
        let summary =
            if number % 10 == 3 { "Dentist".to_owned() } else { format!("Meeting {number}") };
        let (day, month, hour) = (1 + number % 15, 1 + number / 15, 8 + number % 9);
        let _ = write!(
            calendar,
            "BEGIN:VEVENT\r\nUID:e{number}\r\nSUMMARY:{summary}\r\nLOCATION:{}\r\n\
             DTSTART:2026{month:02}{day:02}T{hour:02}0000Z\r\nEND:VEVENT\r\n",
            ["Bern", "Zug"][number % 2]
        );
    }
    calendar + "END:VCALENDAR\r\n"
}

/// Puts the files of one person into a folder, and imports them.
fn import(kit: &Kit, folder: &Path) {
    fs::create_dir(folder.join("vault")).unwrap();
    for number in 0..25 {
        let said = if number == 9 { "herons nest in reeds" } else { "nothing new" };
        let note =
            format!("---\ndue: 2026-0{}-01\n---\n# Note {number}\n\n{said}\n", 1 + number % 6);
        fs::write(folder.join(format!("vault/note{number:02}.md")), note).unwrap();
    }
    for (name, content) in [
        ("mail.mbox", mailbox()),
        ("konto.csv", transactions()),
        ("_chat.txt", chat()),
        ("work.ics", calendar()),
    ] {
        fs::write(folder.join(name), content).unwrap();
    }
    for (name, connection, stream) in [
        ("mail.mbox", "gmail", "mail"),
        ("konto.csv", "bank", "money"),
        ("_chat.txt", "phone", "chat"),
        ("work.ics", "work", "calendar"),
        ("vault", "vault", "notes"),
    ] {
        let path = folder.join(name);
        let path = path.to_str().unwrap();
        kit.said(&["import", path, "--connection", connection, "--stream", stream]);
    }
}

/// A question, the most calls it may take, how the agent asks, and what the last answer has to say.
type Question = (&'static str, usize, &'static [&'static str], fn() -> Vec<(&'static str, Value)>);

/// The most bytes of one question's calls and answers. Lists of many records may take more.
const MOST_BYTES: usize = 4096;
/// The most bytes of the list of sixty dates and subjects.
const MOST_BYTES_OF_LIST: usize = 24 * 1024;

const LIST: &str = "Which mails came, with date and subject?";

const QUESTIONS: [Question; 20] = [
    ("How many mails mention the boiler?", 1, &["10 hit(s)"], || {
        vec![("search", json!({ "q": "boiler", "limit": 1 }))]
    }),
    ("Who writes about the boiler?", 1, &["\"Heating Ltd <office@heating.example>\"=10"], || {
        let group =
            json!({ "stream": "mail", "metric": "count", "q": "boiler", "group_by": "from" });
        vec![("aggregate", group)]
    }),
    (LIST, 1, &["shown=60 of 60", "\"subject\":\"Lunch 0\"", "Boiler quote 56"], || {
        let list = json!({
            "stream": "mail", "detail": "list", "limit": 100, "fields": ["date", "subject"],
        });
        vec![("query_records", list)]
    }),
    ("What did Ann write last?", 1, &["Lunch 57", "See you at noon."], || {
        let last = json!({
            "stream": "mail", "filter": { "from": "Ann Lee <ann@herons.example>" }, "limit": 1,
        });
        vec![("query_records", last)]
    }),
    ("How many mails came each month?", 1, &["=28", "=4"], || {
        let months = json!({
            "stream": "mail", "metric": "count", "group_by_time": "date", "granularity": "month",
        });
        vec![("aggregate", months)]
    }),
    (
        "What do groceries cost each month?",
        1,
        &["[\"Groceries\", \"2026-02-01T00:00:00+00:00\"]=-167"],
        || {
            let months = json!({
                "stream": "money", "metric": "sum", "field": "Betrag", "group_by": "Art",
                "group_by_time": "Datum", "granularity": "month",
            });
            vec![("aggregate", months)]
        },
    ),
    ("What did February cost?", 1, &["= -18167 over 30"], || {
        let sum = json!({
            "stream": "money", "metric": "sum", "field": "Betrag",
            "filter": { "Datum": { "gte": "2026-02-01", "lt": "2026-03-01" } },
        });
        vec![("aggregate", sum)]
    }),
    ("To whom did most money go?", 1, &["shown=3: \"Landlord\"=-54000"], || {
        let sums = json!({
            "stream": "money", "metric": "sum", "field": "Betrag", "group_by": "Empfaenger",
            "order": "value_asc",
        });
        vec![("aggregate", sums)]
    }),
    ("What does a purchase at the grocer's cost?", 1, &["\"Green Grocer\"=-12.5"], || {
        let means = json!({
            "stream": "money", "metric": "avg", "field": "Betrag", "group_by": "Empfaenger",
        });
        vec![("aggregate", means)]
    }),
    (
        "Which payments were above a thousand?",
        1,
        &["shown=30 of 30", "\"Empfaenger\":\"Landlord\""],
        || {
            let large = json!({
                "stream": "money", "filter": { "Betrag": { "lt": -1000 } }, "detail": "list",
                "limit": 100, "fields": ["Datum", "Empfaenger"],
            });
            vec![("query_records", large)]
        },
    ),
    ("When does the ferry leave?", 1, &["the ferry leaves at nine"], || {
        vec![("search", json!({ "q": "ferry leaves" }))]
    }),
    ("Who writes more, Ann or Bo?", 1, &["\"Ann\"=20", "\"Bo\"=20"], || {
        vec![("aggregate", json!({ "stream": "chat", "metric": "count", "group_by": "from" }))]
    }),
    ("What did Bo write on 10 January?", 1, &["\"text\":\"message 9\""], || {
        let day = json!({ "from": "Bo", "at": { "gte": "2026-01-10", "lt": "2026-01-11" } });
        vec![("query_records", json!({ "stream": "chat", "filter": day }))]
    }),
    ("At which hour do they write most?", 1, &["by \"at\" over 40 record(s)", "8=4"], || {
        let hours = json!({
            "stream": "chat", "metric": "count", "group_by_time": "at",
            "granularity": "hour_of_day", "order": "value_desc", "limit": 3,
        });
        vec![("aggregate", hours)]
    }),
    ("What is in the week of 5 January?", 1, &["shown=7 of 7", "Meeting 4", "Meeting 10"], || {
        let week = json!({
            "stream": "calendar", "filter": { "date": { "gte": "2026-01-05", "lt": "2026-01-12" } },
            "order": "asc", "detail": "list", "fields": ["date", "summary", "location"],
        });
        vec![("query_records", week)]
    }),
    (
        "When was I at the dentist last, and where?",
        2,
        &["\"location\":\"Zug\"", "2026-02-09"],
        || {
            let dentist = json!({
                "stream": "calendar", "filter": { "summary": "Dentist" }, "limit": 1,
                "fields": ["date", "location"],
            });
            vec![("search", json!({ "q": "dentist", "limit": 1 })), ("query_records", dentist)]
        },
    ),
    ("Which weekday is fullest?", 1, &["\"Thursday\"=5"], || {
        let days = json!({
            "stream": "calendar", "metric": "count", "group_by_time": "date",
            "granularity": "weekday", "order": "value_desc",
        });
        vec![("aggregate", days)]
    }),
    ("How often am I in Zug?", 1, &["\"Zug\"=15"], || {
        vec![(
            "aggregate",
            json!({ "stream": "calendar", "metric": "count", "group_by": "location" }),
        )]
    }),
    ("Which notes are due before February?", 1, &["shown=5 of 5", "note00.md"], || {
        let due = json!({
            "stream": "notes", "filter": { "due": { "lt": "2026-02-01" } }, "detail": "list",
            "fields": ["path", "due"],
        });
        vec![("query_records", due)]
    }),
    ("What do the notes say of herons?", 2, &["herons nest in reeds"], || {
        vec![
            ("search", json!({ "q": "herons", "streams": ["notes"] })),
            ("fetch", json!({ "id": "vault/notes:note09.md" })),
        ]
    }),
];

/// The kinds of data, how many of [`QUESTIONS`] each has in their order, and its other questions.
const KINDS: [(&str, usize, &[Asked]); 5] = [
    ("Mail", 5, &kinds::MAIL),
    ("Transactions", 5, &kinds::MONEY),
    ("Chats", 4, &kinds::CHAT),
    ("Calendar", 4, &kinds::CALENDAR),
    ("Notes", 2, &kinds::NOTES),
];

#[test]
fn an_agent_that_knows_only_tools_answers_twenty_questions_of_each_kind_of_data() {
    let kit = Kit::new();
    let folder = tempfile::tempdir().unwrap();
    import(&kit, folder.path());
    let mut agent = Agent::new(Peer::open(&kit.server, &kit.owner, Lifecycle::Sessionless));
    let mut page =
        "<!-- Written by a test from the code: run the tests with UPDATE_DOCS=1 to renew \
        it. -->\n\n# A hundred questions about records\n\nAn agent that sees five streams, \
        imported from files as programs export them, answers twenty questions of each kind of data \
        with the tools. The bytes are those of all calls and answers, text and structure.\n"
            .to_owned();
    let mut asked = 0;
    for (kind, own, more) in KINDS {
        let _ = write!(page, "\n## {kind}\n\n| question | calls | bytes |\n|---|---|---|\n");
        let begin = asked;
        asked += own;
        let own = QUESTIONS.into_iter().skip(begin).take(own);
        let own = own.map(|(question, most, right, calls)| (question, most, right, calls()));
        let more = more.iter().map(|(question, tool, arguments, right)| {
            (*question, 1, *right, vec![(*tool, arguments())])
        });
        for (question, most, right, calls) in own.chain(more) {
            let mut last = Value::Null;
            for (tool, arguments) in calls {
                last = agent.call(tool, arguments);
            }
            let said = last["content"][0]["text"].as_str().unwrap();
            for part in right {
                assert!(said.contains(part), "{question} {part}: {said}");
            }
            let (calls, bytes) = agent.count();
            let bound = if said.contains("shown=30 of 30") || question == LIST {
                MOST_BYTES_OF_LIST
            } else {
                MOST_BYTES
            };
            assert!(calls <= most && bytes <= bound, "{question}: {calls} calls, {bytes} bytes");
            let _ = writeln!(page, "| {question} | {calls} | {} |", bytes.next_multiple_of(100));
        }
    }
    assert_document("docs/questions.md", &page);
}
