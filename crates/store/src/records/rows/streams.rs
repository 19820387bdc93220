//! The rows of connections, streams, and the tags of searchable fields.

use std::collections::HashMap;
use std::sync::Arc;

use stile_domain::records::identifiers::SourceName;
use stile_domain::records::indexed_fields::IndexedFields;
use stile_domain::records::problem::Problem;

use super::transaction::Rows;
use crate::records::model::{StreamDeclaration, StreamRow};
use crate::records::removal::{HiddenReason, HiddenStream};
use crate::sql::{Row, statement, values};

/// Reads streams.
pub(in crate::records) trait StreamRows: Rows {
    /// Returns the streams of one name, or all streams.
    fn streams(&self, name: Option<&str>) -> Result<Vec<StreamRow>, Problem> {
        let named = statement!(
            "SELECT s.id, c.name, s.name, s.declaration, s.revision, s.terms \
             FROM streams s JOIN connections c ON c.tenant = s.tenant AND c.id = s.connection \
             WHERE s.tenant = $1 AND s.name = $2 AND s.removed IS NULL ORDER BY s.id"
        );
        let all = statement!(
            "SELECT s.id, c.name, s.name, s.declaration, s.revision, s.terms \
             FROM streams s JOIN connections c ON c.tenant = s.tenant AND c.id = s.connection \
             WHERE s.tenant = $1 AND s.removed IS NULL ORDER BY s.id"
        );
        match name {
            Some(name) => self.door().all(named, values![name], stream_row),
            None => self.door().all(all, &[], stream_row),
        }
    }

    /// Finds the stream of a connection.
    fn stream(&self, connection: &str, stream: &str) -> Result<Option<StreamDeclaration>, Problem> {
        let sql = statement!(
            "SELECT s.id, s.declaration, s.terms \
             FROM streams s JOIN connections c ON c.tenant = s.tenant AND c.id = s.connection \
             WHERE s.tenant = $1 AND c.name = $2 AND s.name = $3 AND s.removed IS NULL"
        );
        self.door().first(sql, values![connection, stream], |row| {
            Ok(StreamDeclaration {
                id: row.get(0)?,
                declaration: row.get(1)?,
                indexed: row.get(2)?,
            })
        })
    }

    /// Returns the streams of one name that were removed.
    fn removed_streams(&self, name: &str) -> Result<Vec<StreamRow>, Problem> {
        let sql = statement!(
            "SELECT s.id, c.name, s.name, s.declaration, s.revision, s.terms \
             FROM streams s JOIN connections c ON c.tenant = s.tenant AND c.id = s.connection \
             WHERE s.tenant = $1 AND s.name = $2 AND s.removed IS NOT NULL ORDER BY s.id"
        );
        self.door().all(sql, values![name], stream_row)
    }

    /// Returns all streams that nobody sees, each with the reason.
    fn hidden_streams(&self) -> Result<Vec<HiddenStream>, Problem> {
        let sql = statement!(
            "SELECT id, name, connection, removed FROM streams \
             WHERE tenant = $1 AND removed IS NOT NULL ORDER BY id"
        );
        self.door().all(sql, &[], |row| {
            Ok(HiddenStream {
                id: row.get(0)?,
                name: row.get(1)?,
                connection: row.get(2)?,
                reason: serde_json::from_str(row.get(3)?).map_err(|_| Problem::Corrupt)?,
            })
        })
    }

    /// Returns the number of a connection.
    fn connection_number(&self, name: &str) -> Result<Option<i64>, Problem> {
        let sql = statement!("SELECT id FROM connections WHERE tenant = $1 AND name = $2");
        self.door().number(sql, values![name])
    }

    /// Counts the records of a stream, whoever may see it.
    fn count_records(&self, stream: i64) -> Result<u64, Problem> {
        let sql = statement!("SELECT count(*) FROM records WHERE tenant = $1 AND stream = $2");
        let count = self.door().number(sql, values![stream])?.unwrap_or_default();
        Ok(u64::try_from(count).unwrap_or_default())
    }

    /// Returns the declaration of a stream.
    fn declaration(&self, stream: i64) -> Result<String, Problem> {
        let sql = statement!("SELECT declaration FROM streams WHERE tenant = $1 AND id = $2");
        let found = self.door().first(sql, values![stream], |row| row.get(0))?;
        found.ok_or(Problem::Corrupt)
    }

    /// Returns the tags of a stream's fields, even of fields that are no longer searchable.
    fn tags(&self, stream: i64) -> Result<HashMap<String, i64>, Problem> {
        let sql = statement!("SELECT field, id FROM tags WHERE tenant = $1 AND stream = $2");
        let tags = self.door().all(sql, values![stream], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(tags.into_iter().collect())
    }

    /// Returns such tags of some streams, by stream.
    fn tags_of(&self, streams: &[i64]) -> Result<HashMap<i64, HashMap<String, i64>>, Problem> {
        let sql =
            statement!("SELECT stream, field, id FROM tags WHERE tenant = $1 AND stream = ANY($2)");
        let mut tags: HashMap<i64, HashMap<String, i64>> = HashMap::new();
        self.door().each(sql, values![streams], &mut |row| {
            tags.entry(row.get(0)?).or_default().insert(row.get(1)?, row.get(2)?);
            Ok(true)
        })?;
        Ok(tags)
    }
}

/// Writes streams.
pub(in crate::records) trait WriteStreamRows: StreamRows {
    /// Inserts a stream, and its connection if that is new. Returns the number of the stream.
    fn insert_stream(
        &self,
        connection: &str,
        stream: &str,
        declaration: &str,
        indexed: &str,
    ) -> Result<i64, Problem> {
        let sql = statement!(
            "INSERT INTO connections (tenant, id, name) \
             SELECT $1, coalesce(max(id), 0) + 1, $2 FROM connections WHERE tenant = $1 \
             ON CONFLICT DO NOTHING"
        );
        self.door().execute(sql, values![connection])?;
        let sql = statement!(
            "INSERT INTO streams (tenant, id, connection, name, declaration, terms, revision) \
             SELECT $1, (SELECT coalesce(max(id), 0) + 1 FROM streams WHERE tenant = $1), \
             id, $3, $4, $5, 1 \
             FROM connections WHERE tenant = $1 AND name = $2 RETURNING id"
        );
        let values = values![connection, stream, declaration, indexed];
        self.door().number(sql, values)?.ok_or(Problem::Corrupt)
    }

    /// Replaces the declaration of a stream and counts the change. A removed stream is there again.
    fn update_stream(&self, stream: i64, declaration: &str, indexed: &str) -> Result<(), Problem> {
        let sql = statement!(
            "UPDATE streams SET declaration = $3, terms = $4, revision = revision + 1, \
             removed = NULL WHERE tenant = $1 AND id = $2"
        );
        self.door().execute(sql, values![stream, declaration, indexed]).map(drop)
    }

    /// Hides a stream, or says anew why it is hidden.
    fn hide_stream(&self, stream: i64, reason: &HiddenReason) -> Result<(), Problem> {
        let reason = serde_json::to_string(reason).map_err(|_| Problem::Corrupt)?;
        let sql = statement!("UPDATE streams SET removed = $3 WHERE tenant = $1 AND id = $2");
        self.door().execute(sql, values![stream, reason]).map(drop)
    }

    /// Inserts a hidden stream in the connection of another one. Its name is none that a caller
    /// could send, and nothing of it is indexed. Returns the number of the stream.
    fn insert_hidden_stream(
        &self,
        beside: i64,
        name: &str,
        reason: &HiddenReason,
    ) -> Result<i64, Problem> {
        let reason = serde_json::to_string(reason).map_err(|_| Problem::Corrupt)?;
        let indexed = serde_json::to_string(&IndexedFields::default()).unwrap_or_default();
        let sql = statement!(
            "INSERT INTO streams (tenant, id, connection, name, declaration, terms, revision, \
             removed) SELECT $1, (SELECT coalesce(max(id), 0) + 1 FROM streams WHERE tenant = $1), \
             connection, $3, $4, $5, 1, $6 FROM streams WHERE tenant = $1 AND id = $2 RETURNING id"
        );
        let values = values![beside, name, "{}", indexed, reason];
        self.door().number(sql, values)?.ok_or(Problem::Corrupt)
    }

    /// Deletes a stream that has no records, tags and log.
    fn delete_stream(&self, stream: i64) -> Result<(), Problem> {
        let sql = statement!("DELETE FROM field_indexes WHERE tenant = $1 AND stream = $2");
        self.door().execute(sql, values![stream])?;
        let sql = statement!("DELETE FROM streams WHERE tenant = $1 AND id = $2");
        self.door().execute(sql, values![stream]).map(drop)
    }

    /// Gives a field of a stream a tag, unless the field has one.
    fn add_tag(&self, stream: i64, field: &str) -> Result<(), Problem> {
        let sql = statement!(
            "INSERT INTO tags (tenant, id, stream, field) \
             SELECT $1, coalesce(max(id), 0) + 1, $2, $3 FROM tags WHERE tenant = $1 \
             ON CONFLICT DO NOTHING"
        );
        self.door().execute(sql, values![stream, field]).map(drop)
    }
}

impl<R: Rows> StreamRows for R {}
impl<R: Rows> WriteStreamRows for R {}

fn stream_row(row: &Row<'_>) -> Result<StreamRow, Problem> {
    let name = |at| SourceName::parse(row.get(at)?).map_err(|_| Problem::Corrupt);
    Ok(StreamRow {
        id: row.get(0)?,
        connection: name(1)?,
        stream: name(2)?,
        declaration: row.get::<&str>(3)?.into(),
        revision: row.get(4)?,
        indexed: Arc::new(serde_json::from_str(row.get(5)?).map_err(|_| Problem::Corrupt)?),
    })
}
