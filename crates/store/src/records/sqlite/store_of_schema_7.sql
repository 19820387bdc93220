-- A store that version 7 of the schema wrote: four records, some texts of which that version took
-- for base64 and kept from searches. The rows are what the program of that time had written.
INSERT INTO connections (id, name) VALUES
    (1, 'lab');
INSERT INTO streams (id, connection, name, declaration, terms, revision) VALUES
    (1, 1, 'notes', '{"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"id":{"type":"string"},"title":{"type":"string"},"body":{"type":"string"},"note":{"type":"string"}}},"primary_key":["id"],"query":{"range_filters":{},"search":{"lexical_fields":["id","title","body","note"]},"aggregations":{"count":true,"sum":[],"min":[],"max":[],"group_by":["id","title","body","note"],"group_by_time":[],"count_distinct":["id","title","body","note"]}}}', '{"cursor_field":null,"cursor_is_time":false,"time_field":null,"searchable":["body","id","note","title"]}', 1);
INSERT INTO records (id, stream, key, emitted, ord, happened, body) VALUES
    (1, 1, X'646e61', 1795465831157528, NULL, NULL, X'026964040103646e61057469746c65040206737472616e6404626f64798400b404474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454414341474154544143414741545441434147415454046e6f746504031061667465722074686520737472616e64');
INSERT INTO records (id, stream, key, emitted, ord, happened, body) VALUES
    (2, 1, X'70617468', 1795465831157528, NULL, NULL, X'02696404010470617468057469746c65840084022f7372762f70686f746f732f323032362f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f686f6c696461792f7069637475726531782f6104626f6479040218706c61696e20776f7264732061626f75742061206665726e046e6f74650403016e');
INSERT INTO records (id, stream, key, emitted, ord, happened, body) VALUES
    (3, 1, X'6c6f6e67', 1795465831157528, NULL, NULL, X'0269640401046c6f6e67057469746c6504020667656e6f6d6504626f64798603c057c05774a89db01b4353a290f87f02230903fd215db18b9d1a8ceb739b42abb95ad2cd046e6f74650604e419e4197f2fc6a2a620972971090d4c6a5038a95388e86ca1d214788553fb43deb8524e');
INSERT INTO records (id, stream, key, emitted, ord, happened, body) VALUES
    (4, 1, X'706c61696e', 1795465831157528, NULL, NULL, X'026964040105706c61696e057469746c6504020667617264656e04626f647904030f776174657220746865206665726e73046e6f746504040178');
INSERT INTO pieces (id, text) VALUES
    (12886999040, CAST(replace(hex(zeroblob(1024)), '00', 'ACGTTGCA') AS BLOB));
INSERT INTO pieces (id, text) VALUES
    (12886999041, CAST(replace(hex(zeroblob(376)), '00', 'ACGTTGCA') AS BLOB));
INSERT INTO pieces (id, text) VALUES
    (12888047616, CAST(replace(hex(zeroblob(300)), '00', 'tall ferns ') AS BLOB));
INSERT INTO tags (id, stream, field) VALUES
    (1, 1, 'body');
INSERT INTO tags (id, stream, field) VALUES
    (2, 1, 'id');
INSERT INTO tags (id, stream, field) VALUES
    (3, 1, 'note');
INSERT INTO tags (id, stream, field) VALUES
    (4, 1, 'title');
INSERT INTO tokens (rowid, text) VALUES
    (4294967296, '2dna');
INSERT INTO tokens (rowid, text) VALUES
    (4296015872, '4strand');
INSERT INTO tokens (rowid, text) VALUES
    (4297064448, '3after 3the 3strand');
INSERT INTO tokens (rowid, text) VALUES
    (8589934592, '2path');
INSERT INTO tokens (rowid, text) VALUES
    (8590983168, '1plain 1words 1about 1a 1fern');
INSERT INTO tokens (rowid, text) VALUES
    (8592031744, '3n');
INSERT INTO tokens (rowid, text) VALUES
    (12884901888, '2long');
INSERT INTO tokens (rowid, text) VALUES
    (12885950464, '4genome');
INSERT INTO tokens (rowid, text) VALUES
    (12888047616, '3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns 3tall 3ferns');
INSERT INTO tokens (rowid, text) VALUES
    (17179869184, '2plain');
INSERT INTO tokens (rowid, text) VALUES
    (17180917760, '4garden');
INSERT INTO tokens (rowid, text) VALUES
    (17181966336, '1water 1the 1ferns');
INSERT INTO tokens (rowid, text) VALUES
    (17183014912, '3x');
