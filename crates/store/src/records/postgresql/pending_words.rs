//! The words of texts that a transaction adds to the index or takes out of it.
//!
//! The index has a row for each block of postings of a token ([`postings`](super::postings)), and a
//! row for each text, with its words. New texts have greater numbers than all before, so their
//! postings are appended: to the last block of their token while that is small, by the database
//! itself, and otherwise as new blocks. Only where a text is changed or removed are blocks read and
//! written again.
//!
//! One transaction of a tenant writes at a time, so nobody else changes the blocks in between.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use stile_domain::records::problem::Problem;

use super::postings::{Block, BlockReader, ListWriter, Places, TextWords};
use super::read::column;
use crate::postgresql::{TenantConnection, TenantSql, params, tenant_sql};
use crate::records::tagged_tokens::TaggedTokens;

/// The bytes after which words are written.
const MOST_BYTES: usize = 16 << 20;
/// The rows and bytes of one statement.
const ROWS_AT_ONCE: usize = 4096;
const BYTES_AT_ONCE: usize = 4 << 20;
/// The texts whose words are taken out at once. The words of a piece take some kilobytes.
const TEXTS_AT_ONCE: usize = 512;

/// Appends blocks: each to the last block of its token if both fit into one, and otherwise as a
/// block of its own.
pub(super) const APPEND: TenantSql = tenant_sql!(
    "INSERT INTO word_blocks AS stored (tenant, tag, token, first, postings) \
             SELECT $1, new.tag, new.token, coalesce(last.first, new.first), new.postings \
             FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[]) \
             AS new (tag, token, first, postings) \
             LEFT JOIN LATERAL (SELECT b.first, octet_length(b.postings) AS bytes \
             FROM word_blocks b WHERE b.tenant = $1 AND b.tag = new.tag AND b.token = new.token \
             ORDER BY b.first DESC LIMIT 1) AS last \
             ON last.bytes + octet_length(new.postings) <= $6 \
             ON CONFLICT (tenant, tag, token, first) \
             DO UPDATE SET postings = stored.postings || excluded.postings"
);

/// Writes blocks, in place of those with the same first numbers.
pub(super) const PUT: TenantSql = tenant_sql!(
    "INSERT INTO word_blocks (tenant, tag, token, first, postings) \
             SELECT $1, new.* FROM unnest($2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[]) \
             AS new ON CONFLICT (tenant, tag, token, first) \
             DO UPDATE SET postings = excluded.postings"
);

/// Reads the blocks in which postings are, or would be.
pub(super) const STORED_BLOCKS: TenantSql = tenant_sql!(
    "WITH wanted AS MATERIALIZED (SELECT DISTINCT n.tag, n.token, last.first \
         FROM unnest($2::bigint[], $3::bytea[], $4::bigint[]) AS n (tag, token, number) \
         CROSS JOIN LATERAL (SELECT b.first FROM word_blocks b WHERE b.tenant = $1 \
         AND b.tag = n.tag AND b.token = n.token AND b.first <= n.number \
         ORDER BY b.first DESC LIMIT 1) AS last) \
         SELECT wanted.tag, wanted.token, wanted.first, block.postings FROM wanted \
         CROSS JOIN LATERAL (SELECT b.postings FROM word_blocks b WHERE b.tenant = $1 \
         AND b.tag = wanted.tag AND b.token = wanted.token AND b.first = wanted.first LIMIT 1) \
         AS block"
);

/// Removes blocks.
pub(super) const DELETE_BLOCKS: TenantSql = tenant_sql!(
    "DELETE FROM word_blocks b \
         USING unnest($2::bigint[], $3::bytea[], $4::bigint[]) AS gone (tag, token, first) \
         WHERE b.tenant = $1 AND b.tag = gone.tag AND b.token = gone.token \
         AND b.first = gone.first"
);

/// A token of a field.
type Word = (i64, Vec<u8>);

/// The postings of a token that change: with packed places, or `None` for those to remove.
type Edits = BTreeMap<i64, Option<Vec<u8>>>;

/// Words that are not written yet.
#[derive(Default)]
pub(super) struct PendingWords {
    /// The greatest number of a text in the index. `None` if nobody has asked for it.
    stored: Option<i64>,
    /// The greatest number of all, with the new texts here.
    last: i64,
    /// The postings of new texts, by field and token.
    lists: HashMap<i64, HashMap<Vec<u8>, ListWriter>>,
    /// The numbers and the words of texts.
    texts: Vec<(i64, Vec<u8>)>,
    /// Postings whose numbers are not greater than all others.
    inserted: BTreeMap<Word, Edits>,
    /// The numbers of these.
    replaced: BTreeSet<i64>,
    /// The numbers of texts whose words are to be taken out first.
    deleted: BTreeSet<i64>,
    bytes: usize,
}

impl PendingWords {
    /// Returns whether so much is pending that it is time to write it.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MOST_BYTES
    }

    /// Returns whether words of a text are pending.
    pub(super) fn has(&self, number: i64) -> bool {
        let is_new = self.stored.is_some_and(|stored| number > stored && number <= self.last);
        is_new || self.replaced.contains(&number)
    }

    /// Takes the words of a text out, if the index has any. None are pending.
    pub(super) fn delete(&mut self, number: i64) {
        self.bytes += size_of::<i64>();
        self.deleted.insert(number);
    }

    /// Adds the words of a text that has none, or whose words are taken out.
    pub(super) fn insert(
        &mut self,
        connection: &TenantConnection<'_>,
        number: i64,
        tokens: &TaggedTokens,
    ) -> Result<(), Problem> {
        if self.stored.is_none() {
            let sql = tenant_sql!("SELECT max(number) FROM text_words WHERE tenant = $1");
            let row = connection.one(&sql, &[])?.ok_or(Problem::Corrupt)?;
            self.last = column::<Option<i64>>(&row, 0)?.unwrap_or_default();
            self.stored = Some(self.last);
        }
        let words = TextWords::of(tokens);
        let packed = words.to_bytes();
        self.bytes += packed.len();
        self.texts.push((number, packed));
        if number > self.last {
            self.last = number;
            for ((tag, token), places) in words.0 {
                let lists = self.lists.entry(tag).or_default();
                let list = match lists.get_mut(token) {
                    Some(list) => list,
                    None => {
                        self.bytes += token.len() + size_of::<(Vec<u8>, ListWriter)>();
                        lists.entry(token.to_vec()).or_default()
                    }
                };
                self.bytes += list.push(number, Places(&places));
            }
            return Ok(());
        }
        self.replaced.insert(number);
        for ((tag, token), places) in words.0 {
            self.bytes += 2 * token.len() + places.len();
            self.inserted.entry((tag, token.to_vec())).or_default().insert(number, Some(places));
        }
        Ok(())
    }

    /// Writes all of them. The greatest number stays known.
    pub(super) fn flush(&mut self, connection: &TenantConnection<'_>) -> Result<(), Problem> {
        let pending = std::mem::take(self);
        (self.last, self.stored) = (pending.last, pending.stored.map(|_| pending.last));
        let mut edits = pending.inserted;
        take_out(connection, pending.deleted, &mut edits)?;
        // New texts may come out of order: one that is edited in may precede one that is appended.
        append(connection, pending.lists)?;
        edit_blocks(connection, edits)?;
        insert_texts(connection, &pending.texts)
    }
}

/// Removes the rows of texts, and adds to `edits` which postings go with them.
fn take_out(
    connection: &TenantConnection<'_>,
    deleted: BTreeSet<i64>,
    edits: &mut BTreeMap<Word, Edits>,
) -> Result<(), Problem> {
    let sql = tenant_sql!(
        "DELETE FROM text_words WHERE tenant = $1 AND number = ANY($2) RETURNING number, words"
    );
    let deleted: Vec<i64> = deleted.into_iter().collect();
    for some in deleted.chunks(TEXTS_AT_ONCE) {
        for row in &connection.rows(&sql, params![some])? {
            let number = column(row, 0)?;
            for ((tag, token), places) in TextWords::parse(column(row, 1)?)?.0 {
                let own = edits.entry((tag, token.to_vec())).or_default();
                if own.get(&number) == Some(&Some(places)) {
                    // The text has the word at the same places as before.
                    own.remove(&number);
                } else {
                    own.entry(number).or_insert(None);
                }
            }
        }
    }
    Ok(())
}

/// Rows of blocks for one statement.
#[derive(Default)]
struct BlockRows {
    tags: Vec<i64>,
    tokens: Vec<Vec<u8>>,
    firsts: Vec<i64>,
    postings: Vec<Vec<u8>>,
    bytes: usize,
}

impl BlockRows {
    fn push(&mut self, (tag, token): (i64, &[u8]), block: Block) {
        self.bytes += token.len() + block.bytes.len();
        self.tags.push(tag);
        self.tokens.push(token.to_vec());
        self.firsts.push(block.first);
        self.postings.push(block.bytes);
    }

    fn is_full(&self) -> bool {
        self.tags.len() >= ROWS_AT_ONCE || self.bytes >= BYTES_AT_ONCE
    }

    /// Appends the blocks: each to the last block of its token if both fit into one, and otherwise
    /// as a block of its own. Of each token there is one block.
    fn append(self, connection: &TenantConnection<'_>) -> Result<(), Problem> {
        if self.tags.is_empty() {
            return Ok(());
        }
        let most = i32::try_from(super::postings::BLOCK_BYTES).unwrap_or(i32::MAX);
        let values = params![self.tags, self.tokens, self.firsts, self.postings, most];
        Ok(connection.rows(&APPEND, values).map(drop)?)
    }

    /// Writes the blocks, in place of those with the same first numbers.
    fn put(self, connection: &TenantConnection<'_>) -> Result<(), Problem> {
        if self.tags.is_empty() {
            return Ok(());
        }
        let values = params![self.tags, self.tokens, self.firsts, self.postings];
        Ok(connection.rows(&PUT, values).map(drop)?)
    }
}

/// Appends the postings of new texts, in the order of the index.
fn append(
    connection: &TenantConnection<'_>,
    lists: HashMap<i64, HashMap<Vec<u8>, ListWriter>>,
) -> Result<(), Problem> {
    let (mut last, mut own) = (BlockRows::default(), BlockRows::default());
    let mut tags: Vec<_> = lists.into_iter().collect();
    tags.sort_unstable_by_key(|(tag, _)| *tag);
    for (tag, lists) in tags {
        let mut lists: Vec<_> = lists.into_iter().collect();
        lists.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (token, list) in lists {
            let mut blocks = list.finish();
            // The first block may be small enough for the last one that is stored.
            if blocks.len() == 1
                && let Some(block) = blocks.pop()
            {
                last.push((tag, &token), block);
            }
            blocks.into_iter().for_each(|block| own.push((tag, &token), block));
            if last.is_full() {
                std::mem::take(&mut last).append(connection)?;
            }
            if own.is_full() {
                std::mem::take(&mut own).put(connection)?;
            }
        }
    }
    last.append(connection)?;
    own.put(connection)
}

fn insert_texts(
    connection: &TenantConnection<'_>,
    texts: &[(i64, Vec<u8>)],
) -> Result<(), Problem> {
    let sql = tenant_sql!(
        "INSERT INTO text_words (tenant, number, words) \
         SELECT $1, new.* FROM unnest($2::bigint[], $3::bytea[]) AS new"
    );
    let mut rest = texts;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |(_, words): &&(i64, Vec<u8>)| {
            bytes += words.len();
            bytes <= BYTES_AT_ONCE
        };
        let count = rest.iter().take(ROWS_AT_ONCE).take_while(fits).count().max(1);
        let (some, after) = rest.split_at(count.min(rest.len()));
        let numbers: Vec<i64> = some.iter().map(|(number, _)| *number).collect();
        let words: Vec<&[u8]> = some.iter().map(|(_, words)| words.as_slice()).collect();
        connection.rows(&sql, params![numbers, words])?;
        rest = after;
    }
    Ok(())
}

/// Changes postings in blocks that are stored.
fn edit_blocks(
    connection: &TenantConnection<'_>,
    edits: BTreeMap<Word, Edits>,
) -> Result<(), Problem> {
    let (mut some, mut count) = (Vec::new(), 0);
    for (word, mut edits) in edits {
        while !edits.is_empty() {
            let left = ROWS_AT_ONCE - count;
            let after = edits.keys().nth(left).copied();
            let rest = after.map(|after| edits.split_off(&after)).unwrap_or_default();
            count += edits.len();
            some.push((word.clone(), std::mem::replace(&mut edits, rest)));
            if count == ROWS_AT_ONCE {
                edit_some(connection, std::mem::take(&mut some))?;
                count = 0;
            }
        }
    }
    edit_some(connection, some)
}

fn edit_some(connection: &TenantConnection<'_>, edits: Vec<(Word, Edits)>) -> Result<(), Problem> {
    if edits.is_empty() {
        return Ok(());
    }
    let mut blocks = stored_blocks(connection, &edits)?;
    let (mut changed, mut emptied) = (BlockRows::default(), BlockRows::default());
    for ((tag, token), mut edits) in edits {
        let key = (tag, token.as_slice());
        let own = blocks.remove(&(tag, token.clone())).unwrap_or_default();
        // The last block takes what follows all blocks, and so on down.
        for (first, bytes) in own.into_iter().rev() {
            let edited = edited(&bytes, edits.split_off(&first))?;
            let mut kept = edited.into_iter();
            match kept.next() {
                None => emptied.push(key, Block { first, bytes: Vec::new() }),
                // The block keeps its place, which may be before its first number by now.
                Some(block) => changed.push(key, Block { first, ..block }),
            }
            kept.for_each(|block| changed.push(key, block));
        }
        edited(&[], edits)?.into_iter().for_each(|block| changed.push(key, block));
    }
    changed.put(connection)?;
    if emptied.tags.is_empty() {
        return Ok(());
    }
    let values = params![emptied.tags, emptied.tokens, emptied.firsts];
    Ok(connection.rows(&DELETE_BLOCKS, values).map(drop)?)
}

/// Returns the blocks in which numbers are, or would be, by their first numbers.
fn stored_blocks(
    connection: &TenantConnection<'_>,
    edits: &[(Word, Edits)],
) -> Result<BTreeMap<Word, BTreeMap<i64, Vec<u8>>>, Problem> {
    let (mut tags, mut tokens, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for ((tag, token), edits) in edits {
        for number in edits.keys() {
            tags.push(*tag);
            tokens.push(token.as_slice());
            numbers.push(*number);
        }
    }
    let mut blocks: BTreeMap<Word, BTreeMap<i64, Vec<u8>>> = BTreeMap::new();
    for row in &connection.rows(&STORED_BLOCKS, params![tags, tokens, numbers])? {
        let word = (column(row, 0)?, column(row, 1)?);
        blocks.entry(word).or_default().insert(column(row, 2)?, column(row, 3)?);
    }
    Ok(blocks)
}

/// Returns the blocks that become of a block.
fn edited(bytes: &[u8], mut edits: Edits) -> Result<Vec<Block>, Problem> {
    let mut reader = BlockReader::new(bytes);
    let mut writer = ListWriter::default();
    let mut push = |number: i64, places: Option<&[u8]>| {
        if let Some(places) = places {
            writer.push(number, Places(places));
        }
    };
    while let Some((number, Places(places))) = reader.next()? {
        let later = edits.split_off(&number);
        for (number, places) in std::mem::replace(&mut edits, later) {
            push(number, places.as_deref());
        }
        match edits.remove(&number) {
            None => push(number, Some(places)),
            Some(places) => push(number, places.as_deref()),
        }
    }
    edits.iter().for_each(|(number, places)| push(*number, places.as_deref()));
    Ok(writer.finish())
}
