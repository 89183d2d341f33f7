//! How rows leave, and to whom.

use clap::Args;
use ipnet::IpNet;

/// Delivery.
#[derive(Debug, Args)]
#[command(next_help_heading = "Delivery")]
pub struct DeliveryFlags {
    /// auto, zmq_to_scheduler, zmq_to_tokenizer (mooncake is not in this version); must be the language
    /// server's too [default: auto = zmq_to_scheduler]
    #[arg(long, value_name = "NAME")]
    pub encoder_transfer_backend: Option<String>,
    /// Networks that embeddings may be sent to, as CIDRs; requests name their receivers, so set this
    /// where strangers reach the port [default: any]
    #[arg(long, value_name = "CIDR", num_args = 1..)]
    pub allowed_destinations: Vec<IpNet>,
}
