//! Message encryption for web push: RFC 8291 over the `aes128gcm` coding of RFC 8188, in one record. Pure: the caller passes the keys.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use domain::push_token::Subscription;

/// Bytes of a record; the body is one record.
const RECORD_BYTES: u32 = 4_096;
/// Bytes that the coding adds: salt, record size, key length and key in front; delimiter and tag at the end.
const OVERHEAD_BYTES: usize = 16 + 4 + 1 + 65 + 1 + 16;
/// Maximum bytes of a text: push services accept bodies of 4,096 bytes.
pub const MAX_TEXT_BYTES: usize = RECORD_BYTES as usize - OVERHEAD_BYTES;

/// Encrypts a text for a browser. The key pair and the salt must not be reused.
pub fn encrypt(text: &[u8], to: &Subscription, own: &PrivateKey, salt: &[u8; 16]) -> Result<Vec<u8>, Unspecified> {
    let own_public = own.compute_public_key()?;
    let own_public = own_public.as_ref();
    let their_public = UnparsedPublicKey::new(&ECDH_P256, &to.p256dh);
    let (content_key, nonce) = agree(own, their_public, Unspecified, |shared| {
        let input: [u8; 32] = derive(&to.auth, shared, &[b"WebPush: info\0", &to.p256dh, own_public])?;
        let content_key: [u8; 16] = derive(salt, &input, &[b"Content-Encoding: aes128gcm\0"])?;
        let nonce: [u8; 12] = derive(salt, &input, &[b"Content-Encoding: nonce\0"])?;
        Ok((content_key, nonce))
    })?;
    let mut record = Vec::with_capacity(text.len() + 17);
    record.extend_from_slice(text);
    // The delimiter of the last record.
    record.push(2);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &content_key)?);
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut record)?;
    let mut body = Vec::with_capacity(text.len() + OVERHEAD_BYTES);
    body.extend_from_slice(salt);
    body.extend_from_slice(&RECORD_BYTES.to_be_bytes());
    body.push(own_public.len() as u8);
    body.extend_from_slice(own_public);
    body.append(&mut record);
    Ok(body)
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Derives `N` bytes by HKDF (RFC 5869), extracted with the salt.
fn derive<const N: usize>(salt: &[u8], input: &[u8], info: &[&[u8]]) -> Result<[u8; N], Unspecified> {
    let mut bytes = [0; N];
    Salt::new(HKDF_SHA256, salt).extract(input).expand(info, Length(N))?.fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    /// The example of RFC 8291, section 5 and appendix A.
    #[test]
    fn example_of_rfc_8291_is_reproduced() {
        let to = Subscription {
            endpoint: "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV".to_owned(),
            p256dh: bytes("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4")
                .try_into()
                .unwrap(),
            auth: bytes("BTBZMqHH6r4Tts7J_aSIgg").try_into().unwrap(),
        };
        let own =
            PrivateKey::from_private_key(&ECDH_P256, &bytes("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")).unwrap();
        let salt: [u8; 16] = bytes("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap();
        let body = encrypt(b"When I grow up, I want to be a watermelon", &to, &own, &salt).unwrap();
        let expected = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN";
        assert_eq!(URL_SAFE_NO_PAD.encode(&body), expected);
    }

    #[test]
    fn largest_text_fills_a_record() {
        let own = PrivateKey::generate(&ECDH_P256).unwrap();
        let browser = PrivateKey::generate(&ECDH_P256).unwrap();
        let p256dh = browser.compute_public_key().unwrap().as_ref().try_into().unwrap();
        let to = Subscription { endpoint: String::new(), p256dh, auth: [7; 16] };
        assert_eq!(encrypt(&[b'x'; MAX_TEXT_BYTES], &to, &own, &[1; 16]).unwrap().len(), 4_096);
        // A point that is not on the curve.
        let wrong = Subscription { p256dh: [4; 65], ..to };
        assert!(encrypt(b"x", &wrong, &own, &[1; 16]).is_err());
    }
}
