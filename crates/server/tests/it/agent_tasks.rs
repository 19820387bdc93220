//! Twenty things that people ask of an agent in their notes, done with tools alone.
//!
//! The client knows what `tools/list` says and what answers say, and no resources. The page
//! `docs/tasks.md` has its calls and their bytes.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use stile_domain::hash::ContentHash;
use stile_testkit::documents::assert_document;
use stile_testkit::hosted::{Lifecycle, Peer};
use stile_testkit::process::Rig;

const PNG: [u8; 8] = [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a];

/// The bytes of a picture, which need not be one that can be shown.
fn picture() -> Vec<u8> {
    let mut bytes = PNG.to_vec();
    bytes.extend((0..600u32).map(|number| number.to_le_bytes()[0]));
    bytes
}

/// A long note, with a heading for each day.
const JOURNAL: &[u8] = include_bytes!("../../../../examples/space/garden/journal.md");

/// Puts notes about gardens into a folder, and the same into one that the agent must not see.
fn plant(root: &Path) {
    for area in ["garden", "private"] {
        let put = |name: &str, text: &[u8]| {
            let file = root.join(area).join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        for number in 0..40 {
            let text = format!("# Bed {number}\n\nDig.\n\nSow number {number} in March.\n");
            put(&format!("beds/bed-{number:02}.md"), text.as_bytes());
        }
        for number in 0..12 {
            let text = format!("# Draft {number}\n\nNothing yet.\n");
            put(&format!("drafts/{number:02}.md"), text.as_bytes());
        }
        put("plans/rain gauge.md", b"# Rain gauge\n\n- [ ] drill\n- [x] glue\n- [ ] hang up\n");
        put("plans/water butt.md", b"# Water butt\n\n- [ ] a tap\n");
        put("order.md", b"Seeds of Holt: leeks.\nHolt ships on Monday.\nThank Holt.\n");
        put("log.md", b"2026-03-01 frost\n2026-03-02 rain\n");
        put("pictures/gate.png", &picture());
        put("journal.md", JOURNAL);
        put("seeds/leek.md", b"---\ntags: [seed]\ndue: 2026-04-01\n---\n[[gone]]\n");
        put("seeds/bean.md", b"---\ntags: [seed, climbs]\ndue: 2026-05-01\n---\n[[leek]]\n");
    }
}

/// A client that counts.
pub(crate) struct Agent {
    peer: Peer,
    calls: usize,
    bytes: usize,
}

impl Agent {
    pub(crate) fn new(peer: Peer) -> Self {
        Self { peer, calls: 0, bytes: 0 }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        let reply = self.peer.post("tools/call", params.clone()).unwrap();
        self.calls += 1;
        self.bytes += params.to_string().len() + reply.body.len();
        let answer = stile_testkit::hosted::message_of(&reply);
        assert_eq!(answer["result"]["isError"], false, "{tool}: {answer}");
        let told = answer.to_string();
        assert!(!told.contains("/private"), "{tool} shows what the token hides: {told}");
        answer["result"].clone()
    }

    fn ask(&mut self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments)["structuredContent"].clone()
    }

    /// Returns the path of the best match for a part of a name.
    fn find(&mut self, pattern: &str) -> Value {
        self.ask("file.find", json!({ "pattern": pattern }))["matches"][0]["path"].clone()
    }

    /// Returns what was counted since the last call of this function.
    pub(crate) fn count(&mut self) -> (usize, usize) {
        (std::mem::take(&mut self.calls), std::mem::take(&mut self.bytes))
    }
}

/// What was measured once, on notes that are not in the repository.
const BY_HAND: &str = "
## By hand

On 24 November 2026 a script did the first ten tasks in a folder of 4,996 notes that nobody of this
project wrote: the READMEs, changelogs, licences and manuals of packages, 47 MB in all. It did them
with a token for everything and with a token for one third of the folders. It held each answer
against the names of the other two thirds, and found none.

| task | calls, all | bytes, all | calls, a third | bytes, a third |
|---|---|---|---|---|
| find a file by a part of its name | 1 | 782 | 1 | 782 |
| find a text anywhere and change it | 3 | 3378 | 3 | 3169 |
| rename a note | 3 | 2631 | 3 | 2631 |
| change three places of a note | 2 | 2453 | 2 | 2453 |
| append to a log | 2 | 1841 | 2 | 1841 |
| make a folder with an index note | 1 | 880 | 1 | 880 |
| look at a picture | 2 | 2689 | 2 | 2689 |
| delete a folder of twelve notes | 14 | 12880 | 14 | 12880 |
| list what changed since yesterday | 1 | 1748 | 1 | 1748 |
| collect the open tasks of a project | 1 | 1385 | 1 | 1385 |

The program was built without optimisation, on two cores that were busy. So one search reached the
end of its two seconds and went on with the cursor. The bytes are those of requests and answers
without their heads.
";

/// A task: what a person asks, the most calls it may take, and how the agent does it.
type Task = (&'static str, usize, fn(&mut Agent, &Path));

/// Where the bytes of each task end that took more than five thousand before it had a tool of its
/// own: at half of what it took.
const HALVED: [(&str, usize); 8] = [
    ("read one day of a long journal", 71_500),
    ("add a line to one day of a long journal", 27_000),
    ("see which months a long journal has", 62_000),
    ("delete a folder of twelve notes", 4_550),
    ("see which tags there are", 9_000),
    ("find broken links", 5_500),
    ("read three notes", 5_000),
    ("find a note by what is remembered of it", 2_750),
];

const TASKS: [Task; 20] = [
    ("find a file by a part of its name", 3, |agent, _| {
        assert_eq!(agent.find("raingau"), "/garden/plans/rain gauge.md");
    }),
    ("find a text anywhere and change it", 3, |agent, root| {
        let hit = agent.ask("text.search", json!({ "q": "number 17 in" }))["hits"][0].clone();
        let edits = json!([{ "old": "March", "new": "April" }]);
        let edit = json!({ "path": hit["path"], "hash": hit["hash"], "edits": edits });
        assert!(agent.ask("text.edit", edit)["written"].as_bool().unwrap());
        let text = fs::read_to_string(root.join("garden/beds/bed-17.md")).unwrap();
        assert!(text.contains("number 17 in April"));
    }),
    ("rename a note", 3, |agent, root| {
        let path = agent.find("water butt");
        let hash = agent.ask("text.read", json!({ "path": path }))["hash"].clone();
        let to = "/garden/plans/water barrel.md";
        agent.ask("file.move", json!({ "path": path, "hash": hash, "to": to }));
        assert!(root.join("garden/plans/water barrel.md").exists());
    }),
    ("change three places of a note", 3, |agent, root| {
        let found = agent.ask("text.search", json!({ "q": "Holt", "path": "/garden" }));
        let hit = &found["hits"][0];
        assert_eq!(found["hits"].as_array().unwrap().len(), 3);
        let edits = json!([{ "old": "Holt", "new": "Elm", "all": true }]);
        agent.ask("text.edit", json!({ "path": hit["path"], "hash": hit["hash"], "edits": edits }));
        let text = fs::read_to_string(root.join("garden/order.md")).unwrap();
        assert_eq!(text, "Seeds of Elm: leeks.\nElm ships on Monday.\nThank Elm.\n");
    }),
    ("append to a log", 3, |agent, root| {
        let read = agent.ask("text.read", json!({ "path": "/garden/log.md", "lines": [-1, 0] }));
        let content = "2026-03-03 sun\n";
        let append = json!({ "path": read["path"], "hash": read["hash"], "content": content });
        agent.ask("text.append", append);
        assert!(fs::read_to_string(root.join("garden/log.md")).unwrap().ends_with(content));
    }),
    ("make a folder with an index note", 3, |agent, root| {
        let content = "# Hedge\n\nWhat is known of the hedge.\n";
        agent.ask("file.create", json!({ "path": "/garden/hedge/index.md", "content": content }));
        assert!(root.join("garden/hedge/index.md").exists());
    }),
    ("look at a picture", 3, |agent, _| {
        let path = agent.find("gate png");
        let shown = agent.call("file.read", json!({ "path": path }));
        let image = &shown["content"].as_array().unwrap()[1];
        assert_eq!((&image["type"], &image["mimeType"]), (&json!("image"), &json!("image/png")));
    }),
    ("delete a folder of twelve notes", 3, |agent, root| {
        let folder = "/garden/drafts";
        let listed = agent.ask("file.list", json!({ "path": folder, "tree_hash": true }));
        agent.ask("folder.remove", json!({ "path": folder, "hash": listed["tree_hash"] }));
        assert!(!root.join("garden/drafts").exists() && root.join("private/drafts").exists());
    }),
    ("list what changed since yesterday", 20, |agent, _| {
        let find = json!({ "pattern": "*", "type": "file", "modified_after": "2026-01-01" });
        let found = agent.ask("file.find", find);
        let changed: BTreeSet<&str> = found["matches"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["path"].as_str().unwrap())
            .collect();
        assert!(
            changed.contains("/garden/order.md") && !changed.contains("/garden/beds/bed-01.md")
        );
    }),
    ("collect the open tasks of a project", 20, |agent, _| {
        let found = agent.ask("text.search", json!({ "q": "- [ ]", "path": "/garden/plans" }));
        let tasks = found["hits"].as_array().unwrap().iter().map(|hit| hit["text"].clone());
        assert_eq!(tasks.collect::<Vec<_>>(), ["- [ ] drill", "- [ ] hang up", "- [ ] a tap"]);
    }),
    ("find a note by what is remembered of it", 3, |agent, _| {
        let found = agent.ask("file.search", json!({ "q": "where do we drill for the gauge" }));
        assert_eq!(found["results"][0]["path"], "/garden/plans/rain gauge.md");
    }),
    ("read three notes", 3, |agent, _| {
        let paths = ["beds/bed-01.md", "beds/bed-02.md", "order.md"];
        let items = paths.map(|path| json!({ "path": format!("/garden/{path}") }));
        let read = agent.ask("text.gather", json!({ "items": items }));
        assert_eq!(read["pieces"].as_array().unwrap().len(), 3);
    }),
    ("see which months a long journal has", 3, |agent, _| {
        let q = json!({ "q": "^### ", "regex": true, "path": "/garden/journal.md" });
        let found = agent.ask("text.search", q);
        assert!(found["hits"].as_array().unwrap().len() > 10);
    }),
    ("read one day of a long journal", 3, |agent, _| {
        let read = agent.ask("text.read", json!({ "path": "/garden/journal.md", "section": DAY }));
        assert!(read["content"].as_str().unwrap().contains(DAY), "{read}");
    }),
    ("add a line to one day of a long journal", 3, |agent, root| {
        let place = json!({ "path": "/garden/journal.md", "section": DAY });
        let read = agent.ask("text.read", place);
        let line = "The first snowdrops.";
        let insert = json!({
            "path": read["path"], "hash": read["hash"], "section": DAY, "at": "end", "content": line,
        });
        agent.ask("text.insert", insert);
        assert!(fs::read_to_string(root.join("garden/journal.md")).unwrap().contains(line));
    }),
    ("write today's line, whether there is a page or not", 3, |agent, root| {
        let line =
            json!({ "path": "/garden/days/2026-03-04.md", "content": "Frost.\n", "create": true });
        agent.ask("text.append", line);
        assert!(root.join("garden/days/2026-03-04.md").exists());
    }),
    ("see which tags there are", 3, |agent, _| {
        let counted = agent.ask("note.tags", json!({ "path": "/garden/seeds" }));
        assert_eq!(counted["values"][0], json!({ "value": "seed", "notes": 2 }));
    }),
    ("find broken links", 3, |agent, _| {
        let find = json!({ "broken": true, "path": "/garden/seeds" });
        let found = agent.ask("note.find", find);
        assert_eq!(found["matches"][0]["path"], "/garden/seeds/leek.md");
    }),
    ("find what is due before May", 3, |agent, _| {
        let find = json!({ "properties": [{ "name": "due", "before": "2026-05-01" }] });
        let found = agent.ask("note.find", find)["matches"].clone();
        assert_eq!(found.as_array().unwrap().len(), 1);
        assert_eq!(found[0]["path"], "/garden/seeds/leek.md");
    }),
    ("see what was written last", 3, |agent, _| {
        let list = json!({ "path": "/garden/days", "order": "newest" });
        let listed = agent.ask("file.list", list);
        assert_eq!(listed["entries"][0]["path"], "/garden/days/2026-03-04.md");
    }),
];

/// A heading of the long journal.
const DAY: &str = "2022-05-14, hawthorn";

#[test]
fn an_agent_that_knows_only_tools_does_twenty_tasks_in_a_part_of_a_space() {
    let folder = tempfile::tempdir().unwrap();
    let rig = Rig::below(folder.path(), env!("CARGO_BIN_EXE_stile"));
    plant(&rig.root);
    // What no task touches was changed long ago.
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    for entry in fs::read_dir(rig.root.join("garden/beds")).unwrap() {
        fs::File::open(entry.unwrap().path()).unwrap().set_modified(old).unwrap();
    }
    let private =
        |root: &Path| ContentHash::digest(&fs::read(root.join("private/order.md")).unwrap());
    let before = private(&rig.root);
    let server = rig.serve(&[]);
    let token = rig.token(&["write:/garden/"], &[]);
    let mut peer = Peer::open(&server, &token, Lifecycle::Sessionless);
    let listed = peer.post("tools/list", json!({})).unwrap().body.len();
    let mut agent = Agent::new(peer);
    let mut page = format!(
        "<!-- Written by a test from the code: run the tests with UPDATE_DOCS=1 to renew it. -->\n\n\
         # Twenty tasks with tools alone\n\n\
         An agent whose host shows it no resources does each of these with the tools. Its token may \
         use one of the two folders of the space, and no answer shows that there is the other. The \
         bytes are those of all calls and answers, text and structure; with `?answers=text` they are \
         about half. The list of tools itself has {} KiB.\n\n\
         | task | calls | bytes |\n|---|---|---|\n",
        listed.div_ceil(1024)
    );
    for (task, most, run) in TASKS {
        run(&mut agent, &rig.root);
        let (calls, bytes) = agent.count();
        assert!(calls <= most, "{task}: {calls} calls");
        let half = HALVED.iter().find(|(halved, _)| *halved == task).map(|(_, half)| *half);
        assert!(half.is_none_or(|half| bytes <= half), "{task}: {bytes} bytes");
        let _ = writeln!(page, "| {task} | {calls} | {} |", bytes.next_multiple_of(100));
    }
    assert_eq!(private(&rig.root), before);
    page.push_str(BY_HAND);
    assert_document("docs/tasks.md", &page);
}
