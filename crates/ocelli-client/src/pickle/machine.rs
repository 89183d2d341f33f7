//! The stack machine: instructions to a tree of plain values.

use super::HeaderError;

/// Place of a value in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(usize);

/// The globals that a header may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    EmbeddingData,
    Modality,
    RebuildTensor,
    LoadFromBytes,
    OrderedDict,
    Float32,
    Float16,
    BFloat16,
}

impl Known {
    fn find(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("sglang.srt.disaggregation.encoder.receiver", "EmbeddingData") => Self::EmbeddingData,
            ("sglang.srt.multimodal.modality", "Modality") => Self::Modality,
            ("torch._utils", "_rebuild_tensor_v2") => Self::RebuildTensor,
            ("torch.storage", "_load_from_bytes") => Self::LoadFromBytes,
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch", "float32") => Self::Float32,
            ("torch", "float16") => Self::Float16,
            ("torch", "bfloat16") => Self::BFloat16,
            _ => return None,
        })
    }
}

/// A value. Calls are recorded, not made.
#[derive(Debug, Clone)]
pub(super) enum Node<'a> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(&'a str),
    Bytes(&'a [u8]),
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Global(Known),
    Call(Known, Id),
    /// An instance of the one class there is, and its attributes once they are set.
    Object(Option<Id>),
}

/// The values of one pickle.
pub(super) struct Tree<'a> {
    nodes: Vec<Node<'a>>,
}

impl<'a> Tree<'a> {
    pub(super) fn get(&self, id: Id) -> &Node<'a> {
        // ids are made by `Machine::add` only and nodes are never removed
        self.nodes.get(id.0).unwrap_or(&Node::None)
    }

    /// Values that were written out. References can make a tree look larger than that.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }
}

enum Slot {
    Mark,
    Value(Id),
}

struct Machine<'a> {
    input: &'a [u8],
    at: usize,
    tree: Tree<'a>,
    stack: Vec<Slot>,
    memo: Vec<Id>,
}

/// Reads a whole pickle; returns its values and the outermost one.
pub(super) fn read(input: &[u8]) -> Result<(Tree<'_>, Id), HeaderError> {
    let tree = Tree { nodes: Vec::new() };
    let mut machine = Machine { input, at: 0, tree, stack: Vec::new(), memo: Vec::new() };
    let root = machine.run()?;
    match input.len() - machine.at {
        0 => Ok((machine.tree, root)),
        trailing => Err(HeaderError::Trailing(trailing)),
    }
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<Id, HeaderError> {
        loop {
            let at = self.at;
            let [opcode] = self.take_array()?;
            if opcode == b'.' {
                return self.pop().filter(|_| self.stack.is_empty()).ok_or(HeaderError::Operand { opcode, at });
            }
            self.step(opcode, at)?.ok_or(HeaderError::Operand { opcode, at })?;
        }
    }

    /// `None` when the operands are not what the instruction needs.
    fn step(&mut self, opcode: u8, at: usize) -> Result<Option<()>, HeaderError> {
        match opcode {
            0x80 => {
                let [version] = self.take_array()?;
                Ok((version <= 5).then_some(()))
            }
            0x95 => self.take_array::<8>().map(|_| Some(())), // a frame's length; frames mean nothing here
            b'N' => self.push(Node::None),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'K' => self.take_array().map(|[byte]| i64::from(byte)).and_then(|n| self.push(Node::Int(n))),
            b'M' => {
                let n = u16::from_le_bytes(self.take_array()?);
                self.push(Node::Int(n.into()))
            }
            b'J' => {
                let n = i32::from_le_bytes(self.take_array()?);
                self.push(Node::Int(n.into()))
            }
            0x8a => self.long(),
            b'G' => {
                let x = f64::from_be_bytes(self.take_array()?);
                self.push(Node::Float(x))
            }
            0x8c => self.take_array().and_then(|[len]| self.text(len.into())),
            b'X' => {
                let len = u32::from_le_bytes(self.take_array()?);
                self.text(len as usize)
            }
            b'C' => self.take_array().and_then(|[len]| self.bytes(len.into())),
            b'B' => {
                let len = u32::from_le_bytes(self.take_array()?);
                self.bytes(len as usize)
            }
            0x94 => Ok(self.top().map(|id| self.memo.push(id))),
            b'h' => self.take_array().map(|[index]| self.recall(index.into())),
            b'j' => {
                let index = u32::from_le_bytes(self.take_array()?);
                Ok(self.recall(index as usize))
            }
            b'(' => {
                self.stack.push(Slot::Mark);
                Ok(Some(()))
            }
            b']' => self.push(Node::List(Vec::new())),
            b'}' => self.push(Node::Dict(Vec::new())),
            b')' => self.push(Node::Tuple(Vec::new())),
            0x85..=0x87 => Ok(self.short_tuple(usize::from(opcode - 0x84))),
            b't' => Ok(self.pop_to_mark().map(|items| self.add(Node::Tuple(items)))),
            b'a' => Ok(self.pop().and_then(|item| self.append(vec![item]))),
            b'e' => Ok(self.pop_to_mark().and_then(|items| self.append(items))),
            b'u' => Ok(self.pop_to_mark().and_then(|items| self.set_items(&items))),
            0x93 => self.global(),
            b'R' => Ok(self.call()),
            0x81 => Ok(self.new_object()),
            b'b' => Ok(self.build()),
            _ => Err(HeaderError::Opcode { opcode, at }),
        }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], HeaderError> {
        let end = self.at.checked_add(len).filter(|end| *end <= self.input.len());
        let end = end.ok_or(HeaderError::Truncated(self.at))?;
        let taken = &self.input[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], HeaderError> {
        let at = self.at;
        self.take(N)?.try_into().map_err(|_| HeaderError::Truncated(at))
    }

    fn add(&mut self, node: Node<'a>) {
        self.stack.push(Slot::Value(Id(self.tree.nodes.len())));
        self.tree.nodes.push(node);
    }

    fn push(&mut self, node: Node<'a>) -> Result<Option<()>, HeaderError> {
        self.add(node);
        Ok(Some(()))
    }

    fn text(&mut self, len: usize) -> Result<Option<()>, HeaderError> {
        let at = self.at;
        let text = std::str::from_utf8(self.take(len)?).map_err(|_| HeaderError::Utf8(at))?;
        self.push(Node::Str(text))
    }

    fn bytes(&mut self, len: usize) -> Result<Option<()>, HeaderError> {
        let bytes = self.take(len)?;
        self.push(Node::Bytes(bytes))
    }

    /// `LONG1` of at most eight bytes: no number in a header is larger.
    fn long(&mut self) -> Result<Option<()>, HeaderError> {
        let [len] = self.take_array()?;
        let digits = self.take(len.into())?;
        let Some(last) = digits.last() else { return self.push(Node::Int(0)) };
        if digits.len() > 8 {
            return Ok(None);
        }
        let mut bytes = if *last < 0x80 { [0; 8] } else { [0xff; 8] };
        bytes[..digits.len()].copy_from_slice(digits);
        self.push(Node::Int(i64::from_le_bytes(bytes)))
    }

    fn top(&self) -> Option<Id> {
        match self.stack.last() {
            Some(Slot::Value(id)) => Some(*id),
            _ => None,
        }
    }

    fn pop(&mut self) -> Option<Id> {
        let top = self.top()?;
        self.stack.pop();
        Some(top)
    }

    fn pop_to_mark(&mut self) -> Option<Vec<Id>> {
        let mark = self.stack.iter().rposition(|slot| matches!(slot, Slot::Mark))?;
        let items = self.stack.drain(mark..).skip(1);
        items.map(|slot| if let Slot::Value(id) = slot { Some(id) } else { None }).collect()
    }

    fn recall(&mut self, index: usize) -> Option<()> {
        let id = *self.memo.get(index)?;
        self.stack.push(Slot::Value(id));
        Some(())
    }

    fn short_tuple(&mut self, len: usize) -> Option<()> {
        let mut items = (0..len).map(|_| self.pop()).collect::<Option<Vec<_>>>()?;
        items.reverse();
        self.add(Node::Tuple(items));
        Some(())
    }

    fn append(&mut self, mut items: Vec<Id>) -> Option<()> {
        let list = self.top()?;
        let Node::List(list) = self.tree.nodes.get_mut(list.0)? else { return None };
        list.append(&mut items);
        Some(())
    }

    fn set_items(&mut self, items: &[Id]) -> Option<()> {
        let dict = self.top()?;
        let Node::Dict(dict) = self.tree.nodes.get_mut(dict.0)? else { return None };
        let (pairs, rest) = items.as_chunks::<2>();
        dict.extend(pairs.iter().map(|[key, value]| (*key, *value)));
        rest.is_empty().then_some(())
    }

    fn global(&mut self) -> Result<Option<()>, HeaderError> {
        let (name, module) = (self.pop(), self.pop());
        let text = |id: Option<Id>| match id.map(|id| self.tree.get(id)) {
            Some(Node::Str(text)) => Some(*text),
            _ => None,
        };
        let (Some(module), Some(name)) = (text(module), text(name)) else { return Ok(None) };
        let refused = || HeaderError::Global(format!("{module}.{name}").chars().take(100).collect());
        let known = Known::find(module, name).ok_or_else(refused)?;
        self.push(Node::Global(known))
    }

    fn call(&mut self) -> Option<()> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Node::Global(function) = *self.tree.get(function) else { return None };
        self.add(Node::Call(function, arguments));
        Some(())
    }

    fn new_object(&mut self) -> Option<()> {
        let (arguments, class) = (self.pop()?, self.pop()?);
        let plain = matches!(self.tree.get(arguments), Node::Tuple(items) if items.is_empty());
        let class = matches!(self.tree.get(class), Node::Global(Known::EmbeddingData));
        (plain && class).then(|| self.add(Node::Object(None)))
    }

    fn build(&mut self) -> Option<()> {
        let state = self.pop()?;
        let object = self.top()?;
        let Node::Object(attributes @ None) = self.tree.nodes.get_mut(object.0)? else { return None };
        *attributes = Some(state);
        Some(())
    }
}
