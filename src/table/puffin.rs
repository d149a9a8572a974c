//! Puffin: a container of blobs (Iceberg's specification), used for deletion vectors.
//!
//! ```text
//!   PFA1 | blob | blob | ...          offsets count from the start of the file
//!   PFA1 | JSON: {"blobs":[..]}       the footer
//!   length of the JSON (4 bytes, little-endian) | flags (4 bytes) | PFA1
//! ```
//!
//! Goes in: `deletion-vector-v1` blobs. Comes out: the bytes of a file; or, from such bytes, where each blob lies and what it
//! deletes from. Always holds: a parsed blob lies between the magic and the footer; anything else is an error that says why.

use super::deletion_vector;
use super::row_address::FragmentId;
use bytes::Bytes;
use serde_json::{Value, json};
use std::ops::Range;

/// Opens the file, opens the footer, ends the file.
const MAGIC: [u8; 4] = *b"PFA1";
/// The only type of blob that is written or taken.
const DELETION_VECTOR: &str = "deletion-vector-v1";
/// After the JSON: its length, the flags, the magic.
const TRAILER_BYTES: usize = 12;
/// The longest footer that is parsed: some 250,000 blobs.
const MAX_FOOTER_BYTES: usize = 64 * 1024 * 1024;

/// The properties of a blob. The first two are Iceberg's, the last is ours: other readers skip it.
const CARDINALITY: &str = "cardinality";
const DATA_FILE: &str = "referenced-data-file";
const FRAGMENT: &str = "amend.fragment";

/// Puts blobs into one file.
#[derive(Debug, Clone)]
pub struct PuffinWriter {
    file: Vec<u8>,
    blobs: Vec<Value>,
}

impl PuffinWriter {
    /// A file without blobs.
    pub fn new() -> Self {
        PuffinWriter { file: MAGIC.to_vec(), blobs: Vec::new() }
    }

    /// Adds the `deletion-vector-v1` blob that deletes `cardinality` rows of `fragment`, which lie in `data_file` (the name
    /// of one of the fragment's files, for readers that know no fragments). Returns the blob's offset and length.
    pub fn add(&mut self, blob: &[u8], fragment: FragmentId, cardinality: u32, data_file: &str) -> (u64, u64) {
        let (offset, length) = (self.file.len() as u64, blob.len() as u64);
        self.file.extend_from_slice(blob);
        self.blobs.push(json!({
            "type": DELETION_VECTOR,
            "fields": [],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": offset,
            "length": length,
            "properties": { CARDINALITY: cardinality.to_string(), DATA_FILE: data_file, FRAGMENT: fragment.to_string() },
        }));
        (offset, length)
    }

    /// The bytes of the file.
    pub fn finish(self) -> Bytes {
        let mut file = self.file;
        let footer = json!({ "blobs": self.blobs }).to_string();
        file.extend_from_slice(&MAGIC);
        file.extend_from_slice(footer.as_bytes());
        file.extend_from_slice(&(footer.len() as u32).to_le_bytes());
        // No flag is set: the footer is not compressed.
        file.extend_from_slice(&[0; 4]);
        file.extend_from_slice(&MAGIC);
        Bytes::from(file)
    }
}

impl Default for PuffinWriter {
    fn default() -> Self {
        Self::new()
    }
}

/// A blob of a file, by its footer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// Where it starts.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
    /// The fragment it deletes from.
    pub fragment: FragmentId,
    /// How many rows it deletes.
    pub cardinality: u32,
    /// The data file it names.
    pub data_file: String,
}

/// The blobs of the Puffin file `file` (all of its bytes), in the order of its footer.
pub fn parse_footer(file: &[u8]) -> Result<Vec<BlobInfo>, String> {
    let (footer, blob_bytes) = footer_of(file)?;
    let footer: Value = serde_json::from_slice(footer).map_err(|error| format!("its footer is not JSON: {error}"))?;
    let blobs = footer.get("blobs").and_then(Value::as_array).ok_or("its footer has no list of blobs")?;
    blobs
        .iter()
        .enumerate()
        .map(|(index, blob)| parse_blob(blob, &blob_bytes).map_err(|reason| format!("its blob {index} {reason}")))
        .collect()
}

/// Refuses a Puffin file of which a byte is not as it was written: blobs by their own checksums, the rest by writing it anew. (The
/// names of data files, which are for other readers, are taken as they stand.)
pub fn check(file: &[u8]) -> Result<(), String> {
    let mut anew = PuffinWriter::new();
    for info in parse_footer(file)? {
        let blob = usize::try_from(info.offset).ok().zip(usize::try_from(info.length).ok());
        let blob = blob.and_then(|(offset, length)| file.get(offset..)?.get(..length)).ok_or("a blob lies outside of it")?;
        let rows = deletion_vector::decode(blob, u32::MAX).map_err(|reason| format!("the blob of fragment {}: {reason}", info.fragment))?;
        if rows.len() != u64::from(info.cardinality) {
            return Err(format!(
                "the blob of fragment {} deletes {} rows, the footer says {}",
                info.fragment,
                rows.len(),
                info.cardinality
            ));
        }
        anew.add(blob, info.fragment, info.cardinality, &info.data_file);
    }
    if anew.finish() == file { Ok(()) } else { Err("it is not as it was written".into()) }
}

/// The JSON of the footer, and which bytes of the file are for blobs.
fn footer_of(file: &[u8]) -> Result<(&[u8], Range<u64>), String> {
    let body = file.strip_prefix(&MAGIC).ok_or("it does not start with the magic of a Puffin file")?;
    let (body, trailer) = body.split_last_chunk::<TRAILER_BYTES>().ok_or("it is too short for a Puffin file")?;
    let [l0, l1, l2, l3, flags @ .., m0, m1, m2, m3] = *trailer;
    if [m0, m1, m2, m3] != MAGIC {
        return Err("it does not end with the magic of a Puffin file".into());
    }
    if flags != [0; 4] {
        return Err(format!("its footer has flags {flags:?} that are not known"));
    }
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > MAX_FOOTER_BYTES {
        return Err(format!("its footer of {length} bytes is longer than the limit of {MAX_FOOTER_BYTES}"));
    }
    let (blobs, footer) =
        body.len().checked_sub(length).and_then(|at| body.split_at_checked(at)).ok_or("its footer is longer than the file")?;
    let blobs = blobs.strip_suffix(&MAGIC).ok_or("its footer does not start with the magic")?;
    let start = MAGIC.len() as u64;
    Ok((footer, start..start + blobs.len() as u64))
}

fn parse_blob(blob: &Value, blob_bytes: &Range<u64>) -> Result<BlobInfo, String> {
    let number = |key: &str| blob.get(key).and_then(Value::as_u64).ok_or_else(|| format!("has no {key}"));
    let property = |key: &str| {
        let value = blob.get("properties").and_then(|properties| properties.get(key)).and_then(Value::as_str);
        value.ok_or_else(|| format!("has no property {key}"))
    };
    let numeric_property = |key: &str| property(key)?.parse::<u32>().map_err(|error| format!("has a wrong property {key}: {error}"));
    if blob.get("type").and_then(Value::as_str) != Some(DELETION_VECTOR) {
        return Err(format!("is not of type {DELETION_VECTOR}"));
    }
    if blob.get("compression-codec").is_some_and(|codec| !codec.is_null()) {
        return Err("is compressed".into());
    }
    let (offset, length) = (number("offset")?, number("length")?);
    let end = offset.checked_add(length);
    if offset < blob_bytes.start || end.is_none_or(|end| end > blob_bytes.end) {
        return Err(format!("of {length} bytes at {offset} lies outside of the bytes {blob_bytes:?} for blobs"));
    }
    Ok(BlobInfo {
        offset,
        length,
        fragment: FragmentId(numeric_property(FRAGMENT)?),
        cardinality: numeric_property(CARDINALITY)?,
        data_file: property(DATA_FILE)?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_blobs() -> Bytes {
        let mut writer = PuffinWriter::new();
        assert_eq!(writer.add(b"first blob", FragmentId(3), 7, "data/a.parquet"), (4, 10));
        assert_eq!(writer.add(b"second", FragmentId(4_000_000_000), u32::MAX, "data/\"b\".parquet"), (14, 6));
        writer.finish()
    }

    /// A file whose footer is `json`, after four bytes for blobs.
    fn with_footer(json: &str) -> Vec<u8> {
        let length = (json.len() as u32).to_le_bytes();
        [b"PFA1BLOBPFA1", json.as_bytes(), &length, &[0; 4], b"PFA1"].concat()
    }

    fn one_blob(change: impl Fn(&mut Value)) -> Result<Vec<BlobInfo>, String> {
        let mut blob = json!({
            "type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4, "length": 4,
            "properties": { "cardinality": "1", "referenced-data-file": "data/x", "amend.fragment": "0" },
        });
        change(&mut blob);
        parse_footer(&with_footer(&json!({ "blobs": [blob] }).to_string()))
    }

    #[test]
    fn an_empty_file_has_these_bytes() {
        let expected = b"PFA1PFA1{\"blobs\":[]}\x0c\0\0\0\0\0\0\0PFA1";
        assert_eq!(PuffinWriter::new().finish().as_ref(), expected);
        assert_eq!(parse_footer(expected), Ok(vec![]));
    }

    #[test]
    fn the_footer_is_as_iceberg_specifies_it() {
        let file = two_blobs();
        assert_eq!(&file[..24], b"PFA1first blobsecondPFA1");
        let footer: Value = serde_json::from_slice(&file[24..file.len() - TRAILER_BYTES]).unwrap();
        let first = json!({
            "type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4, "length": 10,
            "properties": { "cardinality": "7", "referenced-data-file": "data/a.parquet", "amend.fragment": "3" },
        });
        assert_eq!(footer["blobs"][0], first);
        assert_eq!(footer["blobs"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn blobs_come_back() {
        let file = two_blobs();
        let blobs = parse_footer(&file).unwrap();
        let first = BlobInfo { offset: 4, length: 10, fragment: FragmentId(3), cardinality: 7, data_file: "data/a.parquet".into() };
        let second = BlobInfo {
            offset: 14,
            length: 6,
            fragment: FragmentId(4_000_000_000),
            cardinality: u32::MAX,
            data_file: "data/\"b\".parquet".into(),
        };
        assert_eq!(blobs, [first, second]);
        assert_eq!(&file[14..20], b"second");
    }

    #[test]
    fn every_cut_is_noticed() {
        let file = two_blobs();
        for length in 0..file.len() {
            assert!(parse_footer(&file[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn flipped_bits_do_no_harm() {
        let file = two_blobs().to_vec();
        for byte in 0..file.len() {
            for bit in 0..8 {
                let mut damaged = file.clone();
                damaged[byte] ^= 1 << bit;
                for blob in parse_footer(&damaged).unwrap_or_default() {
                    assert!(blob.offset >= 4 && blob.offset + blob.length <= 20, "byte {byte} bit {bit}: {blob:?}");
                }
            }
        }
    }

    #[test]
    fn footers_that_do_not_add_up_are_refused() {
        assert_eq!(one_blob(|_| {}).unwrap().len(), 1);
        let refused = |change: fn(&mut Value), reason: &str| {
            let found = one_blob(change).unwrap_err();
            assert!(found.contains(reason), "{found}");
        };
        refused(|blob| blob["offset"] = json!(3), "lies outside");
        refused(|blob| blob["length"] = json!(5), "lies outside");
        refused(|blob| blob["length"] = json!(u64::MAX), "lies outside");
        refused(|blob| blob["offset"] = json!(-4), "has no offset");
        refused(|blob| blob["length"] = json!(1.5), "has no length");
        refused(|blob| blob["type"] = json!("apache-datasketches-theta-v1"), "is not of type");
        refused(|blob| blob["compression-codec"] = json!("zstd"), "is compressed");
        refused(|blob| blob["properties"]["cardinality"] = json!("4294967296"), "wrong property cardinality");
        refused(|blob| blob["properties"]["cardinality"] = json!(1), "no property cardinality");
        refused(|blob| blob["properties"]["amend.fragment"] = Value::Null, "no property amend.fragment");
        refused(|blob| blob["properties"] = json!([]), "has no property");
        refused(|blob| *blob = json!(7), "is not of type");

        for (footer, reason) in [("", "not JSON"), ("{}", "no list"), ("{\"blobs\":{}}", "no list"), ("[1", "not JSON")] {
            let found = parse_footer(&with_footer(footer)).unwrap_err();
            assert!(found.contains(reason), "{found}");
        }
        let nested = "[".repeat(100_000);
        assert!(parse_footer(&with_footer(&nested)).unwrap_err().contains("not JSON"));
    }

    #[test]
    fn compressed_and_overlong_footers_are_refused() {
        let mut file = with_footer("{\"blobs\":[]}");
        let flags = file.len() - 8;
        file[flags] = 1;
        assert!(parse_footer(&file).unwrap_err().contains("flags"));
        let mut file = with_footer("{\"blobs\":[]}");
        let length = file.len() - 12;
        file[length..length + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(parse_footer(&file).unwrap_err().contains("longer than the limit"));
        file[length..length + 4].copy_from_slice(&1000u32.to_le_bytes());
        assert!(parse_footer(&file).unwrap_err().contains("longer than the file"));
    }
}
