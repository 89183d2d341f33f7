use super::*;

fn gate(policy: FetchPolicy) -> Gate {
    Gate::new(&policy).unwrap()
}

fn check(gate: &Gate, url: &str) -> Result<(), MediaError> {
    gate.check(&Url::parse(url).unwrap())
}

fn only(names: &[&str]) -> Gate {
    let allowed_domains = Some(names.iter().map(ToString::to_string).collect());
    gate(FetchPolicy { allowed_domains, ..FetchPolicy::default() })
}

#[test]
fn private_hosts_are_refused_however_they_are_written() {
    let gate = gate(FetchPolicy::default());
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "0",
        "0.0.0.0",
        "10.1.2.3",
        "172.31.255.255",
        "192.168.0.1",
        "169.254.169.254",
        "100.100.100.200",
        "192.0.0.192",
        "198.19.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "１２７.0.0.1",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:a00:1]",
        "[::10.0.0.1]",
        "[::ffff:0:10.0.0.1]",
        "[64:ff9b::169.254.169.254]",
        "[64:ff9b:1::808:808]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "[2001:0:808:808::80ff:fffe]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[2001:db8::1]",
    ] {
        let refusal = check(&gate, &format!("http://{host}/x?q=secret")).unwrap_err();
        let MediaError::Refused(why) = &refusal else { panic!("{host}: {refusal}") };
        assert!(why.contains("--allow-private-media-addresses") && !why.contains("secret"), "{why}");
    }
}

#[test]
fn public_hosts_are_admitted() {
    let gate = gate(FetchPolicy::default());
    for host in [
        "8.8.8.8",
        "172.32.0.1",
        "172.15.0.1",
        "100.128.0.1",
        "100.63.0.1",
        "192.0.1.1",
        "198.20.0.1",
        "223.255.255.255",
        "[2606:4700::1111]",
        "[::ffff:8.8.8.8]",
        "[64:ff9b::808:808]",
        "[2002:808:808::1]",
        "[2001:0:808:808::f7f7:f7f7]",
        "example.com",
    ] {
        check(&gate, &format!("https://{host}/")).unwrap_or_else(|why| panic!("{host}: {why}"));
    }
}

#[test]
fn private_addresses_are_admitted_when_the_operator_says_so() {
    let gate = gate(FetchPolicy { allow_private_addresses: true, ..FetchPolicy::default() });
    check(&gate, "http://127.0.0.1:8000/").unwrap();
    check(&gate, "http://[::1]/").unwrap();
}

#[test]
fn allowed_domains_are_exact_and_compared_as_hosts() {
    let gate = only(&["Example.COM", "bücher.example", "8.8.8.8"]);
    for url in ["http://example.com/", "http://EXAMPLE.com:81/", "http://xn--bcher-kva.example/", "http://134744072/"] {
        check(&gate, url).unwrap_or_else(|why| panic!("{url}: {why}"));
    }
    for url in ["http://a.example.com/", "http://example.com.evil.org/", "http://evil-example.com/", "http://8.8.4.4/"]
    {
        assert!(matches!(check(&gate, url), Err(MediaError::Refused(why)) if why.contains("--allowed-media-domains")));
    }
}

#[test]
fn an_allowed_domain_does_not_make_an_address_public() {
    assert!(check(&only(&["127.0.0.1"]), "http://127.0.0.1/").is_err());
}

#[test]
fn an_empty_list_of_domains_allows_none() {
    assert!(check(&only(&[]), "http://example.com/").is_err());
}

#[test]
fn a_domain_that_is_no_host_is_the_operators_mistake() {
    for name in ["http://example.com", "example.com:80", ""] {
        let policy = FetchPolicy { allowed_domains: Some(vec![name.into()]), ..FetchPolicy::default() };
        assert!(matches!(Gate::new(&policy), Err(MediaError::Client(_))), "{name}");
    }
}

#[test]
fn passwords_and_other_schemes_are_refused() {
    let gate = gate(FetchPolicy::default());
    for url in ["http://me@example.com/", "http://:pw@example.com/", "ftp://example.com/", "file:///etc/passwd"] {
        assert!(matches!(check(&gate, url), Err(MediaError::Refused(why)) if !why.contains("pw")), "{url}");
    }
}

#[test]
fn no_limit_leaves_the_hard_cap() {
    assert_eq!(FetchPolicy { max_bytes: 0, ..FetchPolicy::default() }.limit(), 4 << 30);
    assert_eq!(FetchPolicy { max_bytes: u64::MAX, ..FetchPolicy::default() }.limit(), 4 << 30);
    assert_eq!(FetchPolicy { max_bytes: 7, ..FetchPolicy::default() }.limit(), 7);
}
