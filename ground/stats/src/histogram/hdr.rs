//! Exchange with HdrHistogram tools: the V2 encoding in base64, as their log files carry it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};
use thiserror::Error;

use super::Histogram;

/// Significant digits of the exported histogram: 1,024 buckets per octave, each inside one of ours.
const DIGITS: u8 = 3;
/// The encoding's values are signed in the Java and C libraries.
const HDR_MAX: u64 = i64::MAX as u64;

/// Why a text is not an HDR histogram, or a histogram could not be encoded.
#[derive(Debug, Error)]
pub enum HdrError {
    /// The text is not base64.
    #[error("HDR histogram: not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The bytes are not a V2 encoding.
    #[error("HDR histogram: cannot decode: {0}")]
    Decode(String),
    /// The encoder refused.
    #[error("HDR histogram: cannot encode: {0}")]
    Encode(String),
}

impl Histogram {
    /// The histogram in HdrHistogram's uncompressed V2 encoding, base64.
    ///
    /// Every bucket's count is kept; values become the bucket's midpoint, minimum and maximum keep
    /// three digits. Values from 2^63 are written as 2^63 - 1, the encoding's largest.
    ///
    /// # Errors
    /// [`HdrError::Encode`] when the encoder refuses, which no histogram is known to provoke.
    pub fn to_hdr_v2_base64(&self) -> Result<String, HdrError> {
        encoded(&self.to_hdr()?, &mut V2Serializer::new())
    }

    /// The same compressed, as log files have it.
    ///
    /// # Errors
    /// As [`Histogram::to_hdr_v2_base64`].
    pub fn to_hdr_v2_compressed_base64(&self) -> Result<String, HdrError> {
        encoded(&self.to_hdr()?, &mut V2DeflateSerializer::new())
    }

    fn to_hdr(&self) -> Result<Hdr<u64>, HdrError> {
        let encode = |why: &dyn std::fmt::Display| HdrError::Encode(why.to_string());
        let high = self.max.clamp(2, HDR_MAX);
        let mut hdr = Hdr::<u64>::new_with_bounds(1, high, DIGITS).map_err(|why| encode(&why))?;
        let mut put = |value: u64, n: u64| {
            hdr.record_n(value.min(HDR_MAX), n).map_err(|why| HdrError::Encode(why.to_string()))
        };
        let last = self.iter().last().map(|bucket| bucket.low);
        for (place, bucket) in self.iter().enumerate() {
            let mut rest = bucket.count;
            if place == 0 {
                put(self.min, 1)?;
                rest -= 1;
            }
            if Some(bucket.low) == last && rest > 0 {
                put(self.max, 1)?;
                rest -= 1;
            }
            if rest > 0 {
                put(self.clamp(bucket.midpoint()), rest)?;
            }
        }
        Ok(hdr)
    }

    /// Reads an HDR histogram (V2, plain or compressed) in base64. Values are known as well as the
    /// source kept them, so sum, minimum and maximum are no longer exact.
    ///
    /// # Errors
    /// [`HdrError::Base64`] or [`HdrError::Decode`] when the text is something else.
    pub fn from_hdr_v2_base64(text: &str) -> Result<Histogram, HdrError> {
        let bytes = STANDARD.decode(text.trim())?;
        let hdr: Hdr<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|why| HdrError::Decode(format!("{why:?}")))?;
        let mut histogram = Histogram::new();
        for step in hdr.iter_recorded() {
            histogram.record_n(hdr.median_equivalent(step.value_iterated_to()), step.count_at_value());
        }
        Ok(histogram)
    }
}

fn encoded<S: Serializer>(hdr: &Hdr<u64>, serializer: &mut S) -> Result<String, HdrError>
where
    S::SerializeError: std::fmt::Debug,
{
    let mut bytes = Vec::new();
    serializer.serialize(hdr, &mut bytes).map_err(|why| HdrError::Encode(format!("{why:?}")))?;
    Ok(STANDARD.encode(bytes))
}
