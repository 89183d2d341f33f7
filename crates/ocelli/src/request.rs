//! What a client asked for, after the JSON was checked: beyond this file there is no JSON.

use ocelli_core::{Destination, Modality, ReqId};

/// One medium of a request.
#[derive(Clone, PartialEq, Eq)]
pub struct Item {
    /// URL, `data:` URL, path or base64, as it came.
    pub source: ItemSource,
    /// `sha256:<64 hex>` of the fetched bytes, when the client wants them checked.
    pub content_hash: Option<String>,
}

/// Where the bytes of an item are.
#[derive(Clone, PartialEq, Eq)]
pub enum ItemSource {
    /// A string that says where to find them.
    Text(String),
    /// The bytes themselves, as multipart uploads have them.
    Bytes(bytes::Bytes),
}

/// Who gets the embedding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipients {
    /// Whoever registers (`/scheduler_receive_url`); the first to do so says how many there will be.
    Registered,
    /// These, named by the request itself.
    Named(Vec<Destination>),
}

/// A checked `/encode` body.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodeRequest {
    /// The part's id.
    pub id: ReqId,
    /// One modality a part.
    pub modality: Modality,
    /// At least one.
    pub items: Vec<Item>,
    /// Parts of the whole user request.
    pub num_parts: u32,
    /// Which of them this is: below `num_parts`.
    pub part_idx: u32,
    /// Who gets the rows.
    pub recipients: Recipients,
}

impl Item {
    /// Bytes of media that the request itself carries, before base64 is undone.
    pub fn inline_bytes(&self) -> usize {
        match &self.source {
            ItemSource::Text(text) => text.len(),
            ItemSource::Bytes(bytes) => bytes.len(),
        }
    }
}
