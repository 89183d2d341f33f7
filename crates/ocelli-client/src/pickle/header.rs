//! The header as a value: a tree that is an `EmbeddingData`, attribute by attribute.

use super::HeaderError;
use super::machine::{self, Id, Known, Node, Tree};
use super::tensor::{self, Tensor};
use ocelli_core::{GridThw, Modality};

/// Room for some 40,000 items; a usual header has 800 bytes.
const MAX_BYTES: usize = 1 << 20;

/// Frame 0 of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// The part's id.
    pub req_id: String,
    /// Parts of the user request.
    pub num_parts: u32,
    /// Which one this is, from 0.
    pub part_idx: u32,
    /// What its items are.
    pub modality: Modality,
    /// Rows, or why there are none.
    pub content: Content,
}

/// What a message is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Rows follow in frame 1.
    Rows {
        /// An entry an item.
        grids: Grids,
        /// Element type of the rows.
        dtype: Dtype,
        /// Rows of all items.
        rows: usize,
        /// Columns of a row.
        columns: usize,
        /// A list of seconds a video (Qwen3-VL).
        video_timestamps: Option<Vec<Vec<f64>>>,
        /// Seconds that a temporal step covers, a video (Qwen2.5-VL).
        second_per_grid_ts: Option<Vec<f32>>,
    },
    /// It failed.
    Error {
        /// What the user is told.
        message: String,
        /// With which status.
        code: Option<u16>,
    },
}

/// The sizes of a part's items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grids {
    /// Pictures and videos: patches.
    Thw(Vec<GridThw>),
    /// Audio: feature frames.
    Lengths(Vec<u64>),
}

/// Element type of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
}

impl Dtype {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }
}

/// Reads frame 0.
///
/// # Errors
/// Whatever is not a header; see [`HeaderError`].
pub fn read(frame: &[u8]) -> Result<Header, HeaderError> {
    if frame.len() > MAX_BYTES {
        return Err(HeaderError::TooLong { limit: MAX_BYTES, actual: frame.len() });
    }
    let (tree, root) = machine::read(frame)?;
    let Node::Object(Some(state)) = *tree.get(root) else { return Err(HeaderError::Class) };
    let attributes = Attributes::of(&tree, state)?;
    let (num_parts, part_idx) = (attributes.number("num_parts")?, attributes.number("part_idx")?);
    if part_idx >= num_parts {
        return Err(HeaderError::Value("part_idx"));
    }
    Ok(Header {
        req_id: attributes.text("req_id")?.to_owned(),
        num_parts,
        part_idx,
        modality: attributes.modality()?,
        content: attributes.content()?,
    })
}

/// All that a message may have, of the families that exist here.
const NAMES: [&str; 14] = [
    "req_id",
    "num_parts",
    "part_idx",
    "grid_dim",
    "modality",
    "embedding",
    "send_time",
    "dtype",
    "shape",
    "_mr_ptr",
    "error_msg",
    "error_code",
    "video_timestamps",
    "second_per_grid_ts",
];

struct Attributes<'t, 'a> {
    tree: &'t Tree<'a>,
    values: [Option<Id>; NAMES.len()],
}

impl<'t, 'a> Attributes<'t, 'a> {
    fn of(tree: &'t Tree<'a>, state: Id) -> Result<Self, HeaderError> {
        let Node::Dict(pairs) = tree.get(state) else { return Err(HeaderError::Class) };
        let mut values = [None; NAMES.len()];
        for (name, value) in pairs {
            let Node::Str(name) = tree.get(*name) else { return Err(HeaderError::Class) };
            let place = NAMES.iter().position(|known| known == name).and_then(|at| values.get_mut(at));
            match place {
                Some(place @ None) => *place = Some(*value),
                _ => return Err(HeaderError::Attribute(name.chars().take(100).collect())),
            }
        }
        let attributes = Self { tree, values };
        // must exist, and are never filled on the wire
        for name in ["embedding", "send_time"] {
            if !matches!(attributes.get(name), Some(Node::None)) {
                return Err(HeaderError::Value(name));
            }
        }
        Ok(attributes)
    }

    fn id(&self, name: &'static str) -> Option<Id> {
        NAMES.iter().zip(self.values).find_map(|(known, value)| value.filter(|_| *known == name))
    }

    fn get(&self, name: &'static str) -> Option<&'t Node<'a>> {
        self.id(name).map(|id| self.tree.get(id))
    }

    /// The attribute's value, unless it is absent or None.
    fn filled(&self, name: &'static str) -> Option<Id> {
        self.id(name).filter(|id| !matches!(self.tree.get(*id), Node::None))
    }

    fn number(&self, name: &'static str) -> Result<u32, HeaderError> {
        match self.get(name) {
            Some(Node::Int(n)) => u32::try_from(*n).map_err(|_| HeaderError::Value(name)),
            _ => Err(HeaderError::Value(name)),
        }
    }

    fn text(&self, name: &'static str) -> Result<&'a str, HeaderError> {
        match self.get(name) {
            Some(Node::Str(text)) => Ok(*text),
            _ => Err(HeaderError::Value(name)),
        }
    }

    fn modality(&self) -> Result<Modality, HeaderError> {
        let wrong = HeaderError::Value("modality");
        let Some(Node::Call(Known::Modality, arguments)) = self.get("modality") else { return Err(wrong) };
        let Node::Tuple(arguments) = self.tree.get(*arguments) else { return Err(wrong) };
        let [number] = arguments[..] else { return Err(wrong) };
        match *self.tree.get(number) {
            Node::Int(1) => Ok(Modality::Image),
            Node::Int(2) => Ok(Modality::Video),
            Node::Int(3) => Ok(Modality::Audio),
            _ => Err(wrong),
        }
    }

    fn content(&self) -> Result<Content, HeaderError> {
        if self.filled("error_msg").is_none() {
            return self.rows();
        }
        for name in ["grid_dim", "dtype", "shape"] {
            if self.filled(name).is_some() {
                return Err(HeaderError::Value(name));
            }
        }
        let code = match self.get("error_code") {
            Some(Node::None) => None,
            Some(Node::Int(code)) => Some(u16::try_from(*code).map_err(|_| HeaderError::Value("error_code"))?),
            _ => return Err(HeaderError::Value("error_code")),
        };
        Ok(Content::Error { message: self.text("error_msg")?.to_owned(), code })
    }

    fn rows(&self) -> Result<Content, HeaderError> {
        let [rows, columns] = self.shape()?;
        let dtype = match self.get("dtype") {
            Some(Node::Global(Known::Float32)) => Dtype::F32,
            Some(Node::Global(Known::Float16)) => Dtype::F16,
            Some(Node::Global(Known::BFloat16)) => Dtype::BF16,
            _ => return Err(HeaderError::Value("dtype")),
        };
        Ok(Content::Rows {
            grids: self.grids()?,
            dtype,
            rows,
            columns,
            video_timestamps: self.timestamps()?,
            second_per_grid_ts: self.seconds()?,
        })
    }

    fn shape(&self) -> Result<[usize; 2], HeaderError> {
        let wrong = HeaderError::Value("shape");
        let Some(Node::List(sides)) = self.get("shape") else { return Err(wrong) };
        let [rows, columns] = sides[..] else { return Err(wrong) };
        match (self.tree.get(rows), self.tree.get(columns)) {
            (Node::Int(r), Node::Int(c)) => match (usize::try_from(*r), usize::try_from(*c)) {
                (Ok(rows), Ok(columns)) => Ok([rows, columns]),
                _ => Err(wrong),
            },
            _ => Err(wrong),
        }
    }

    fn grids(&self) -> Result<Grids, HeaderError> {
        let wrong = HeaderError::Value("grid_dim");
        let id = self.id("grid_dim").ok_or(wrong.clone())?;
        let Tensor::Int64 { shape, values } = tensor::read(self.tree, id)? else { return Err(wrong) };
        let side = |n: &i64| u32::try_from(*n).map_err(|_| wrong.clone());
        if shape.len() == 1 {
            let lengths: Result<_, _> = values.iter().map(|n| u64::try_from(*n)).collect();
            return lengths.map(Grids::Lengths).map_err(|_| wrong);
        }
        let (items, rest) = values.as_chunks::<3>();
        if shape.last() != Some(&3) || !rest.is_empty() {
            return Err(wrong);
        }
        let grids: Result<_, _> =
            items.iter().map(|[t, h, w]| Ok(GridThw::new(side(t)?, side(h)?, side(w)?))).collect();
        grids.map(Grids::Thw)
    }

    fn timestamps(&self) -> Result<Option<Vec<Vec<f64>>>, HeaderError> {
        let Some(id) = self.filled("video_timestamps") else { return Ok(None) };
        let wrong = || HeaderError::Value("video_timestamps");
        let list = |id: Id| match self.tree.get(id) {
            Node::List(items) => Ok(items),
            _ => Err(wrong()),
        };
        let seconds = |id: &Id| match self.tree.get(*id) {
            Node::Float(x) => Ok(*x),
            _ => Err(wrong()),
        };
        let videos = list(id)?.iter().map(|video| list(*video)).collect::<Result<Vec<_>, _>>()?;
        // one long list that is referred to many times would not stay small
        if videos.iter().map(|video| video.len()).sum::<usize>() > self.tree.len() {
            return Err(wrong());
        }
        let videos = videos.into_iter().map(|video| video.iter().map(seconds).collect());
        videos.collect::<Result<_, _>>().map(Some)
    }

    fn seconds(&self) -> Result<Option<Vec<f32>>, HeaderError> {
        let Some(id) = self.filled("second_per_grid_ts") else { return Ok(None) };
        match tensor::read(self.tree, id)? {
            Tensor::Float32 { shape, values } if shape.len() == 1 => Ok(Some(values)),
            _ => Err(HeaderError::Value("second_per_grid_ts")),
        }
    }
}
