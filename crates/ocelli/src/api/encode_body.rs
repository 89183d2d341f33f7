//! The body of `/encode`: the checks of the original, in its order, with its messages
//! (wire-protocol.md 1.2; sglang's `encoder/http_server.py`).

use crate::request::{EncodeRequest, Item, ItemSource, Recipients};
use ocelli_core::{Destination, Fault, ItemIdx, Modality, Reason, ReqId};
use serde_json::{Map, Value};

/// Lists may be nested; nobody nests deeper than prompts × turns × images.
const MAX_NESTING: usize = 8;

/// What the body may ask of this server.
pub struct BodyRules {
    /// The backend is `zmq_to_tokenizer`: the destination must be in the body.
    pub needs_destination: bool,
    /// Most items of one request (`--max-items-per-request`).
    pub max_items: usize,
}

/// Checks a body.
///
/// # Errors
/// `BadRequest` or `UnsupportedModality`, with the original's message where it has one.
pub fn parse(body: &Map<String, Value>, rules: &BodyRules) -> Result<EncodeRequest, Fault> {
    let id = body.get("req_id").and_then(Value::as_str).and_then(ReqId::new);
    let id = id.ok_or_else(|| bad("missing or invalid req_id"))?;
    let modality = parse_modality(body.get("modality"))?;
    let items = parse_items(body.get("mm_items"), rules.max_items)?;
    let num_parts = body.get("num_parts").and_then(whole).filter(|n| *n > 0);
    let num_parts = num_parts.ok_or_else(|| bad("num_parts must be a positive integer"))?;
    let part_idx = body.get("part_idx").and_then(whole).filter(|i| *i < num_parts);
    let part_idx = part_idx.ok_or_else(|| bad(format!("part_idx must be in [0, {num_parts})")))?;
    if let Some(kind) = body.get("hashes").and_then(refused_hashes) {
        return Err(bad(format!("hashes must be list/scalar, got {kind}")));
    }
    let recipients = parse_recipients(body, rules.needs_destination)?;
    Ok(EncodeRequest { id, modality, items, num_parts, part_idx, recipients })
}

/// The modality of a body.
///
/// # Errors
/// Missing, not a string, or a word that is no modality.
pub fn parse_modality(value: Option<&Value>) -> Result<Modality, Fault> {
    let word = value.and_then(Value::as_str).filter(|w| !w.is_empty());
    let word = word.ok_or_else(|| bad("missing or invalid modality"))?;
    Modality::parse(word).ok_or_else(|| {
        let shown: String = word.chars().take(40).collect();
        Fault::new(Reason::UnsupportedModality, format!("unsupported modality: {shown}"))
    })
}

/// The items of a body, flattened.
///
/// # Errors
/// None, too many, nested too deep, or one that is neither a string nor an object with a `url`.
pub fn parse_items(value: Option<&Value>, max_items: usize) -> Result<Vec<Item>, Fault> {
    let mut items = Vec::new();
    match value {
        None | Some(Value::Null) => {}
        Some(value) => flatten(value, 0, max_items, &mut items)?,
    }
    if items.is_empty() {
        return Err(bad("missing or empty mm_items"));
    }
    Ok(items)
}

fn flatten(value: &Value, depth: usize, max_items: usize, items: &mut Vec<Item>) -> Result<(), Fault> {
    if let Value::Array(list) = value {
        if depth == MAX_NESTING {
            return Err(bad(format!("mm_items is nested deeper than {MAX_NESTING} lists")));
        }
        return list.iter().try_for_each(|inner| flatten(inner, depth + 1, max_items, items));
    }
    if items.len() == max_items {
        return Err(bad(format!("mm_items has more than {max_items} items (--max-items-per-request)")));
    }
    let item = parse_item(value).map_err(|fault| fault.at(ItemIdx(items.len())))?;
    items.push(item);
    Ok(())
}

fn parse_item(value: &Value) -> Result<Item, Fault> {
    let (source, content_hash) = match value {
        Value::String(text) => (text, None),
        Value::Object(object) => {
            let Some(Value::String(url)) = object.get("url") else {
                return Err(bad("an object needs a url that is a string"));
            };
            let hash = match object.get("content_hash") {
                None | Some(Value::Null) => None,
                Some(Value::String(hash)) => Some(hash.clone()),
                Some(_) => return Err(bad("content_hash must be a string such as sha256:<64 hex digits>")),
            };
            (url, hash)
        }
        other => return Err(bad(format!("must be a string or an object, got {}", python_type(other)))),
    };
    if source.is_empty() {
        return Err(bad("is an empty string"));
    }
    Ok(Item { source: ItemSource::Text(source.clone()), content_hash })
}

/// `zmq_to_tokenizer` names one port; the legacy direct mode of `zmq_to_scheduler` a list of them.
fn parse_recipients(body: &Map<String, Value>, needs_destination: bool) -> Result<Recipients, Fault> {
    let ports: Vec<&Value> = match body.get("embedding_port") {
        None | Some(Value::Null) if needs_destination => {
            return Err(bad("zmq_to_tokenizer needs prefill_host and embedding_port"));
        }
        None | Some(Value::Null) => return Ok(Recipients::Registered),
        Some(Value::Array(list)) => list.iter().collect(),
        Some(one) => vec![one],
    };
    if ports.is_empty() {
        return Err(bad("embedding_port is an empty list"));
    }
    let host = body.get("prefill_host").and_then(Value::as_str);
    let host = host.ok_or_else(|| bad("embedding_port needs prefill_host"))?;
    let mut named = Vec::with_capacity(ports.len());
    for port in ports {
        let port = whole(port).and_then(|p| u16::try_from(p).ok());
        let port = port.ok_or_else(|| bad("embedding_port must be a port or a list of ports"))?;
        let destination = Destination::new(host, port).map_err(|e| bad(format!("prefill_host: {e}")))?;
        // a set, as with registrations: each destination gets each part exactly once
        if !named.contains(&destination) {
            named.push(destination);
        }
    }
    Ok(Recipients::Named(named))
}

/// A whole number that fits 31 bits; bools and floats are not, as in the original.
fn whole(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n <= i32::MAX as u32)
}

/// The Python type of a `hashes` value that the original refuses.
fn refused_hashes(value: &Value) -> Option<&'static str> {
    match value {
        Value::Object(_) => Some("dict"),
        Value::Number(n) if n.is_f64() => Some("float"),
        _ => None,
    }
}

fn python_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "None",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

fn bad(message: impl Into<String>) -> Fault {
    Fault::new(Reason::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RULES: BodyRules = BodyRules { needs_destination: false, max_items: 4 };

    fn good() -> Value {
        json!({"req_id": "r0", "modality": "IMAGE", "mm_items": ["x"], "num_parts": 1, "part_idx": 0})
    }

    fn with(key: &str, value: Value) -> Value {
        let mut body = good();
        body[key] = value;
        body
    }

    fn refusal(body: &Value, rules: &BodyRules) -> String {
        match parse(body.as_object().unwrap(), rules) {
            Ok(_) => panic!("accepted: {body}"),
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn each_wrong_field_has_the_originals_message() {
        for (key, value, message) in [
            ("req_id", json!(""), "missing or invalid req_id"),
            ("req_id", json!(7), "missing or invalid req_id"),
            ("modality", json!(1), "missing or invalid modality"),
            ("modality", json!("SMELL"), "unsupported modality: SMELL"),
            ("mm_items", json!([]), "missing or empty mm_items"),
            ("mm_items", json!(null), "missing or empty mm_items"),
            ("mm_items", json!([[], [[]]]), "missing or empty mm_items"),
            ("mm_items", json!(["a", ""]), "item 1: is an empty string"),
            ("mm_items", json!([7]), "item 0: must be a string or an object, got int"),
            ("mm_items", json!([{"uri": "x"}]), "item 0: an object needs a url that is a string"),
            ("mm_items", json!(["a", "a", "a", "a", "a"]), "mm_items has more than 4 items (--max-items-per-request)"),
            ("mm_items", json!([[[[[[[[["a"]]]]]]]]]), "mm_items is nested deeper than 8 lists"),
            ("num_parts", json!(0), "num_parts must be a positive integer"),
            ("num_parts", json!(-1), "num_parts must be a positive integer"),
            ("num_parts", json!(true), "num_parts must be a positive integer"),
            ("num_parts", json!(1.0), "num_parts must be a positive integer"),
            ("num_parts", json!(u64::MAX), "num_parts must be a positive integer"),
            ("num_parts", json!("1"), "num_parts must be a positive integer"),
            ("part_idx", json!(1), "part_idx must be in [0, 1)"),
            ("part_idx", json!(-1), "part_idx must be in [0, 1)"),
            ("part_idx", json!(false), "part_idx must be in [0, 1)"),
            ("hashes", json!({}), "hashes must be list/scalar, got dict"),
            ("hashes", json!(1.5), "hashes must be list/scalar, got float"),
            ("embedding_port", json!([80]), "embedding_port needs prefill_host"),
            ("embedding_port", json!([]), "embedding_port is an empty list"),
        ] {
            assert_eq!(refusal(&with(key, value), &RULES), message);
        }
    }

    #[test]
    fn nested_lists_and_bare_items_are_flattened_in_order() {
        let body = with("mm_items", json!([["a", ["b"]], {"url": "c", "content_hash": "sha256:0", "detail": "low"}]));
        let request = parse(body.as_object().unwrap(), &RULES).unwrap();
        let texts: Vec<_> =
            request.items.iter().map(|i| matches!(&i.source, ItemSource::Text(t) if t.len() == 1)).collect();
        assert_eq!(texts, [true, true, true]);
        assert_eq!(request.items[2].content_hash.as_deref(), Some("sha256:0"));
        assert_eq!(parse(with("mm_items", json!("a")).as_object().unwrap(), &RULES).unwrap().items.len(), 1);
    }

    #[test]
    fn the_tokenizer_backend_takes_its_destination_from_the_body() {
        let rules = BodyRules { needs_destination: true, ..RULES };
        assert_eq!(refusal(&good(), &rules), "zmq_to_tokenizer needs prefill_host and embedding_port");
        let mut body = with("embedding_port", json!(81));
        body["prefill_host"] = json!("::1");
        let request = parse(body.as_object().unwrap(), &rules).unwrap();
        assert_eq!(request.recipients, Recipients::Named(vec![Destination::parse("[::1]:81").unwrap()]));
        body["embedding_port"] = json!([81, 82, 81]);
        let request = parse(body.as_object().unwrap(), &rules).unwrap();
        assert!(matches!(request.recipients, Recipients::Named(n) if n.len() == 2));
        body["embedding_port"] = json!(65536);
        assert_eq!(refusal(&body, &rules), "embedding_port must be a port or a list of ports");
    }
}
