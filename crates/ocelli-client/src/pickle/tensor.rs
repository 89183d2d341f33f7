//! A call of `_rebuild_tensor_v2`, read as the tensor that it would make.

use super::HeaderError;
use super::machine::{Id, Known, Node, Tree};
use super::storage::{self, Elements};

/// A contiguous CPU tensor of one or two dimensions.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tensor {
    Int64 { shape: Vec<usize>, values: Vec<i64> },
    Float32 { shape: Vec<usize>, values: Vec<f32> },
}

pub(super) fn read(tree: &Tree<'_>, id: Id) -> Result<Tensor, HeaderError> {
    let shape_of_call = HeaderError::Tensor("not made by _rebuild_tensor_v2 as torch calls it");
    let Node::Call(Known::RebuildTensor, arguments) = *tree.get(id) else { return Err(shape_of_call) };
    let [storage, offset, size, stride, requires_grad, hooks] = tuple(tree, arguments)? else {
        return Err(shape_of_call);
    };
    let plain = matches!(tree.get(*requires_grad), Node::Bool(false))
        && matches!(tree.get(*hooks), Node::Call(Known::OrderedDict, none) if tuple(tree, *none) == Ok(&[]));
    if !plain {
        return Err(shape_of_call);
    }
    let elements = self::elements(tree, *storage)?;
    let (offset, shape, stride) = (count(tree, *offset)?, counts(tree, *size)?, counts(tree, *stride)?);
    let values = window(offset, &shape, &stride)?;
    Ok(match elements {
        Elements::Int64(bytes) => Tensor::Int64 { values: cut(bytes, values, i64::from_le_bytes)?, shape },
        Elements::Float32(bytes) => Tensor::Float32 { values: cut(bytes, values, f32::from_le_bytes)?, shape },
    })
}

fn elements<'a>(tree: &Tree<'a>, id: Id) -> Result<Elements<'a>, HeaderError> {
    let wrong = HeaderError::Tensor("its storage is not made by _load_from_bytes");
    let Node::Call(Known::LoadFromBytes, arguments) = *tree.get(id) else { return Err(wrong) };
    let [blob] = tuple(tree, arguments)? else { return Err(wrong) };
    let Node::Bytes(blob) = *tree.get(*blob) else { return Err(wrong) };
    storage::read(blob)
}

/// Which elements of the storage it shows. A slice of a larger storage is fine; a view that is not row-major
/// is not.
fn window(offset: usize, shape: &[usize], stride: &[usize]) -> Result<std::ops::Range<usize>, HeaderError> {
    let wrong = HeaderError::Tensor("it is not a row-major tensor of one or two dimensions");
    let contiguous = match (shape, stride) {
        ([_], [1]) => true,
        ([_, columns], [step, 1]) => columns == step,
        _ => false,
    };
    let count = shape.iter().try_fold(1usize, |n, side| n.checked_mul(*side));
    let end = count.and_then(|count| count.checked_add(offset)).filter(|_| contiguous);
    end.map(|end| offset..end).ok_or(wrong)
}

fn cut<const N: usize, T>(
    bytes: &[u8],
    range: std::ops::Range<usize>,
    read: fn([u8; N]) -> T,
) -> Result<Vec<T>, HeaderError> {
    let (elements, _) = bytes.as_chunks::<N>();
    let elements = elements.get(range).ok_or(HeaderError::Tensor("it reaches beyond its storage"))?;
    Ok(elements.iter().map(|element| read(*element)).collect())
}

fn tuple<'t>(tree: &'t Tree<'_>, id: Id) -> Result<&'t [Id], HeaderError> {
    match tree.get(id) {
        Node::Tuple(items) => Ok(items),
        _ => Err(HeaderError::Tensor("its arguments are no tuple")),
    }
}

fn count(tree: &Tree<'_>, id: Id) -> Result<usize, HeaderError> {
    match tree.get(id) {
        Node::Int(n) => usize::try_from(*n).ok(),
        _ => None,
    }
    .ok_or(HeaderError::Tensor("its sides are no counts"))
}

fn counts(tree: &Tree<'_>, id: Id) -> Result<Vec<usize>, HeaderError> {
    tuple(tree, id)?.iter().map(|id| count(tree, *id)).collect()
}
