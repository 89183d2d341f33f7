//! sglang's `EmbeddingData`, attribute by attribute in the order in which the original writes them.

use super::tensor;
use super::writer::Writer;
use crate::{Embedding, Failure, Message, Part};

/// Frame 0 of a message.
pub fn encode(message: &Message) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.global("sglang.srt.disaggregation.encoder.receiver", "EmbeddingData");
    writer.op(b')');
    writer.op(0x81); // NEWOBJ: made without calling __init__
    writer.memoize();
    writer.op(b'}');
    writer.memoize();
    writer.op(b'(');
    match message {
        Message::Embedding(part, embedding) => rows(&mut writer, part, embedding),
        Message::Error(part, failure) => error(&mut writer, part, failure),
    }
    writer.op(b'u'); // SETITEMS
    writer.op(b'b'); // BUILD
    writer.finish()
}

fn rows(writer: &mut Writer, part: &Part, embedding: &Embedding) {
    names(writer, part);
    writer.str("grid_dim");
    tensor::grids(writer, &embedding.grid);
    modality(writer, part);
    absent(writer, &["embedding", "send_time"]);
    writer.str("dtype");
    writer.global("torch", embedding.dtype.torch_name());
    writer.str("shape");
    writer.int_list([embedding.rows as u64, embedding.dim as u64]);
    // present for every model, filled for videos only
    absent(writer, &["_mr_ptr", "error_msg", "error_code", "video_timestamps", "second_per_grid_ts"]);
}

fn error(writer: &mut Writer, part: &Part, failure: &Failure) {
    names(writer, part);
    absent(writer, &["grid_dim"]);
    modality(writer, part);
    absent(writer, &["embedding", "send_time", "dtype", "shape", "_mr_ptr"]);
    writer.str("error_msg");
    writer.str(&failure.message);
    writer.str("error_code");
    writer.int(u64::from(failure.code));
}

fn names(writer: &mut Writer, part: &Part) {
    writer.str("req_id");
    writer.str(part.req_id.as_str());
    writer.str("num_parts");
    writer.int(u64::from(part.num_parts));
    writer.str("part_idx");
    writer.int(u64::from(part.part_idx));
}

fn modality(writer: &mut Writer, part: &Part) {
    writer.str("modality");
    writer.global("sglang.srt.multimodal.modality", "Modality");
    writer.int(u64::from(part.modality.wire_number()));
    writer.tuple1();
    writer.op(b'R');
    writer.memoize();
}

fn absent(writer: &mut Writer, attributes: &[&str]) {
    for attribute in attributes {
        writer.str(attribute);
        writer.none();
    }
}
